"""Going on while the store is away, and saying so once."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kue.errors import StoreUnavailable
from kue.outage import Outage


class Sick:
    """Fails until it is healed."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return "well"


@pytest.fixture(autouse=True)
def _all_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


async def test_a_call_that_succeeds_is_not_worth_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def call() -> int:
        return 7

    assert await Outage("redis://here").persist("someone", call) == 7
    assert caplog.messages == []


async def test_one_outage_is_told_once_however_many_feel_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = Outage("redis://here")
    parties = [Sick(StoreUnavailable("gone fishing")) for _ in range(5)]
    tasks = [
        asyncio.create_task(outage.persist(f"party {number}", party))
        for number, party in enumerate(parties)
    ]
    # Each of them tries, and rests before it tries again.
    await asyncio.sleep(0)
    assert [party.calls for party in parties] == [1] * 5

    for party in parties:
        party.error = None

    assert await asyncio.gather(*tasks) == ["well"] * 5
    began, ended = caplog.messages
    assert began == ("redis://here does not answer, trying until it does: gone fishing")
    assert ended.startswith("redis://here answers again after ")


async def test_an_outage_is_over_when_it_is_over_for_everyone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = Outage("redis://here")
    quick, slow = (Sick(StoreUnavailable("gone")) for _ in range(2))
    healing = asyncio.create_task(outage.persist("quick", quick))
    ailing = asyncio.create_task(outage.persist("slow", slow))
    await asyncio.sleep(0)

    quick.error = None
    await healing
    assert len(caplog.messages) == 1

    slow.error = None
    await ailing
    assert len(caplog.messages) == 2


async def test_a_fault_of_ours_comes_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sick = Sick(ZeroDivisionError("whoops"))
    persisting = asyncio.create_task(Outage("redis://here").persist("me", sick))
    await asyncio.sleep(0)

    sick.error = None
    await persisting

    assert caplog.records[0].exc_info is not None
    assert caplog.records[1].exc_info is None


async def test_a_second_outage_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    outage = Outage("redis://here")
    for _ in range(2):
        sick = Sick(StoreUnavailable("gone"))
        persisting = asyncio.create_task(outage.persist("me", sick))
        await asyncio.sleep(0)
        sick.error = None
        await persisting

    assert len(caplog.messages) == 4
