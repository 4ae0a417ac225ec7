"""A fail-over connection whose first store is killed under load and comes back."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import kue
from kue import FailedOver, Kue, StoreUnavailable
from kue.client import failover_connection
from tests.support.patience import until
from tests.support.proxy import Fate, Proxy
from tests.support.servers import RedisServer

PRODUCERS = 20


@pytest.fixture
async def both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[RedisServer, Kue]]:
    """A fail-over from a Redis of its own, which keeps its writes, to a file."""
    monkeypatch.setattr(failover_connection, "PROBE_SECONDS", 0.05)
    folder = tmp_path / "first"
    folder.mkdir()
    server = RedisServer(folder, config={"appendonly": "yes"})
    kue.configure(
        first={"url": server.url, "budget": 0.3},
        second=f"sqlite:///{tmp_path}/second.db",
        both="failover://first,second",
    )
    q = kue.connect("both")
    yield server, q
    await q.close()
    kue.configure(first=None, second=None, both=None)
    server.stop()


async def test_no_acknowledged_job_is_lost_and_none_is_added_twice(
    both: tuple[RedisServer, Kue],
) -> None:
    server, q = both
    switches: list[FailedOver] = []
    q.on_failover(switches.append)
    acknowledged: list[int] = []
    unknown: list[bool] = []
    numbers = iter(range(1_000_000))
    is_over = False

    async def produce() -> None:
        while not is_over:
            number = next(numbers)
            try:
                await q.enqueue("load", {"number": number})
            except StoreUnavailable as exc:
                # The one case that stays unknown: it may be in the first store.
                unknown.append(exc.is_unknown)
            else:
                acknowledged.append(number)

    producers = [asyncio.create_task(produce()) for _ in range(PRODUCERS)]
    await until(lambda: len(acknowledged) > 200)
    server.kill()
    await until(lambda: len(switches) == 1)
    during = len(acknowledged)
    await until(lambda: len(acknowledged) > during + 200)
    server.restart()
    await until(lambda: len(switches) == 2)
    after = len(acknowledged)
    await until(lambda: len(acknowledged) > after + 200)
    is_over = True
    await asyncio.gather(*producers)

    found = Counter([*await _numbers("first"), *await _numbers("second")])
    assert set(acknowledged) <= set(found)
    assert set(found.values()) == {1}
    assert all(unknown)
    moves = [(one.before, one.now, bool(one.reason)) for one in switches]
    assert moves == [("first", "second", True), ("second", "first", False)]
    second = kue.connect("second")
    assert sum((await second.counts()).values()) >= 200


async def _numbers(name: str) -> list[int]:
    q = kue.connect(name)
    found: list[int] = []
    cursor: str | None = None
    while True:
        page = await q.page("waiting", "load", limit=500, cursor=cursor)
        found += [job.data["number"] for job in page.jobs]
        cursor = page.cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("fate", [Fate.CUT_AFTER, Fate.CUT_BEFORE])
async def test_an_add_that_was_sent_is_not_sent_elsewhere(
    redis_server: RedisServer, fate: Fate
) -> None:
    async with Proxy(redis_server.port) as proxy:
        kue.configure(
            first={"url": proxy.url, "budget": 0.3, "prefix": "failover"},
            second="memory://",
            both="failover://first,second",
        )
        q = kue.connect("both")
        await q.enqueue("load", {"number": 1})
        proxy.plan(*[fate] * 100)

        with pytest.raises(StoreUnavailable) as caught:
            await q.enqueue("load", {"number": 2})
        second = kue.connect("second")
        assert caught.value.is_unknown
        assert sum((await second.counts()).values()) == 0

        # It is not waited for: the next add goes to the other store at once.
        await q.enqueue("load", {"number": 3})
        assert sum((await second.counts()).values()) == 1
        await q.close()
    kue.configure(first=None, second=None, both=None)
