"""Who makes the passes of maintenance: one worker, and another when it is gone."""

from __future__ import annotations

import asyncio

import pytest

from kue.aio.retry import StoreRetry
from kue.model.draft import draft
from kue.model.job import State
from kue.model.settings import Settings
from kue.store.contract import Store
from kue.store.values import RenewRequest
from kue.worker.heartbeat import Heartbeat
from kue.worker.maintenance import ELSEWHERE_SECONDS, Maintenance
from kue.worker.shared_context import SharedContext
from tests.support.jobs import SECOND, T0, add, add_one, state_of

#: Enough that every shard has some to look at each second.
TYPES = [f"type {number}" for number in range(40)]


async def passes_made_by(keeper: Store, other: Store) -> None:
    """Let *keeper* make passes until *other* knows that it does."""
    while not (await other.tend()).elsewhere:
        for _ in range(60):
            await keeper.tend()
            await asyncio.sleep(0.02)


async def test_a_beat_says_when_maintenance_is_overdue(store: Store) -> None:
    await add_one(store)
    await store.tend(now=T0)

    assert not (await store.renew(RenewRequest("w1"), now=T0 + SECOND)).overdue
    assert (await store.renew(RenewRequest("w1"), now=T0 + 3 * SECOND)).overdue

    await store.tend(now=T0 + 3 * SECOND)
    assert not (await store.renew(RenewRequest("w1"), now=T0 + 3 * SECOND)).overdue


async def test_a_lone_process_makes_all_passes_itself(store: Store) -> None:
    await add(store, [draft(name) for name in TYPES], now=await store.now())
    tended = [await store.tend() for _ in range(20)]

    assert not any(one.elsewhere for one in tended)


@pytest.mark.parametrize("engine", ["sqlite", "redis", "redis-shards"], indirect=True)
async def test_a_process_is_told_that_another_makes_the_passes(
    store: Store, other_store: Store
) -> None:
    """R-8: sixty workers cost what one does."""
    await add(store, [draft(name) for name in TYPES], now=await store.now())

    await passes_made_by(store, other_store)
    await passes_made_by(other_store, store)


@pytest.mark.parametrize("engine", ["sqlite", "redis"], indirect=True)
async def test_who_rests_is_woken_by_its_heartbeat_when_nobody_makes_the_passes(
    store: Store, other_store: Store
) -> None:
    rest = Rest()
    context = SharedContext(
        "w1", other_store, StoreRetry("test"), Settings(), [], rest.sleep
    )
    upkeep = Maintenance(context)
    heart = Heartbeat(context, info=dict, handle_order=ignore, on_overdue=upkeep.wake)
    await add(store, [draft(name) for name in TYPES], now=await store.now())
    resting = asyncio.create_task(upkeep.run())
    try:
        while not rest.is_long:
            await store.tend()
            await asyncio.sleep(0.02)
        [added] = await add(store, [draft("email", delay=1)], now=await store.now())
        # From now on nobody tends but who is told to.
        while await state_of(store, added.id) is State.DELAYED:
            await heart.send()
            await asyncio.sleep(0.02)
    finally:
        resting.cancel()


class Rest:
    """Rests as long as it is told to; a long rest never ends by itself."""

    def __init__(self) -> None:
        self.is_long = False

    async def sleep(self, seconds: float) -> None:
        self.is_long = seconds >= ELSEWHERE_SECONDS
        await (asyncio.Event().wait() if self.is_long else asyncio.sleep(seconds))


async def ignore(_store: Store, _order: str) -> None:
    """Do nothing of what is ordered."""
