"""Going on while the store is away, and saying so once."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kue.aio import retry as outages
from kue.aio import throttled_log
from kue.aio.retry import StoreRetry
from kue.model.errors import StoreCorrupt, StoreError, StoreFull, StoreUnavailable
from tests.support.patience import until


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

    assert await StoreRetry("redis://here").persist("someone", call) == 7
    assert caplog.messages == []


async def test_one_outage_is_told_once_however_many_feel_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = StoreRetry("redis://here")
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
    outage = StoreRetry("redis://here")
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


@pytest.mark.parametrize(
    "error",
    [ZeroDivisionError("whoops"), StoreCorrupt("a row is bad"), StoreError("no")],
    ids=["bug", "damage", "other"],
)
async def test_what_is_no_outage_is_an_error_with_its_traceback(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    """R-6: damage and faults of ours do not look like a store that is away."""
    outage = StoreRetry("redis://here")
    sick = Sick(error)
    persisting = asyncio.create_task(outage.persist("cycle 1", sick))
    await asyncio.sleep(0)
    trouble = outage.trouble

    sick.error = None
    await persisting

    assert trouble == f"cycle: {type(error).__name__}: {error}"
    assert outage.trouble is None
    [reported, over] = caplog.records
    assert (reported.levelno, over.levelno) == (logging.ERROR, logging.WARNING)
    assert reported.exc_info is not None
    assert str(error) in reported.getMessage()
    assert over.getMessage() == "redis://here: cycle 1 works again"


@pytest.mark.parametrize("error", [StoreUnavailable("gone"), StoreFull("no room")])
async def test_an_outage_is_no_trouble(error: Exception) -> None:
    outage = StoreRetry("redis://here")
    sick = Sick(error)
    persisting = asyncio.create_task(outage.persist("me", sick))
    await asyncio.sleep(0)

    assert outage.trouble is None
    sick.error = None
    await persisting


async def test_trouble_that_lasts_is_reported_once_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(outages, "LONGEST_PAUSE", 0.0)
    clock = Clock()
    monkeypatch.setattr(throttled_log, "time", clock)
    sick = Sick(TypeError("whoops"))
    outage = StoreRetry("redis://here")
    persisting = asyncio.create_task(outage.persist("me", sick))

    await until(lambda: sick.calls >= 20)
    once = len(caplog.records)
    clock.seconds = throttled_log.REPEAT_SECONDS
    seen = sick.calls
    await until(lambda: sick.calls >= seen + 20)
    sick.error = None
    await persisting

    assert once == 1
    levels = [record.levelno for record in caplog.records]
    assert levels == [logging.ERROR, logging.ERROR, logging.WARNING]


async def test_trouble_of_many_parties_names_each_of_them() -> None:
    outage = StoreRetry("redis://here")
    parties = ("cycle 1f", "cycle 2e", "upkeep")
    tasks = [
        asyncio.create_task(outage.persist(who, Sick(TypeError("whoops"))))
        for who in parties
    ]
    await asyncio.sleep(0)

    assert outage.trouble == "cycle, upkeep: TypeError: whoops"

    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    # What was given up is no trouble any more.
    assert outage.trouble is None


async def test_a_party_that_lost_the_store_for_good_is_not_waited_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = StoreRetry("redis://here")
    for _ in range(2):
        sick = Sick(StoreUnavailable("gone"))
        persisting = asyncio.create_task(outage.persist("me", sick))
        await asyncio.sleep(0)
        persisting.cancel()
        await asyncio.wait([persisting])

    # The second outage is told although nobody came back from the first.
    assert len(caplog.messages) == 2


async def test_a_bug_is_logged_each_time_and_raised_after_a_few(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outages, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(outages, "LONGEST_PAUSE", 0.0)
    sick = Sick(TypeError("whoops"))
    retry = StoreRetry("redis://here", max_bugs=3)

    with pytest.raises(TypeError, match="whoops"):
        await retry.persist("cycle 1", sick)

    assert sick.calls == 3
    assert [record.exc_info is not None for record in caplog.records] == [True] * 3
    assert retry.trouble is None


async def test_errors_of_the_store_are_no_bugs_and_end_a_row_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outages, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr(outages, "LONGEST_PAUSE", 0.0)
    bug, damage = TypeError("whoops"), StoreCorrupt("a row is bad")
    errors = [bug, bug, damage, damage, damage, StoreUnavailable("gone"), bug, bug]

    async def call() -> str:
        if errors:
            raise errors.pop()
        return "well"

    retry = StoreRetry("redis://here", max_bugs=3)
    assert await retry.persist("cycle 1", call) == "well"


class Clock:
    """A clock that tests set."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


async def test_a_second_outage_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    outage = StoreRetry("redis://here")
    for _ in range(2):
        sick = Sick(StoreUnavailable("gone"))
        persisting = asyncio.create_task(outage.persist("me", sick))
        await asyncio.sleep(0)
        sick.error = None
        await persisting

    assert len(caplog.messages) == 4
