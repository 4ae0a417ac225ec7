"""`Store.fire`: a schedule that is run by hand."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from kue.model.draft import draft
from kue.model.job import Completed, State
from kue.model.schedule import Schedule, Tick
from kue.store.contract import Store
from tests.support.jobs import (
    HOUR,
    MINUTE,
    T0,
    add_one,
    claim_one,
    count_of,
    end,
    get_one,
)
from tests.support.schedules import every
from tests.support.upkeep import tend

REPORT = every("daily", "1m", draft("report", {"n": 1}), first_at=T0)


async def stored(store: Store) -> Schedule:
    [schedule] = await store.schedules("daily")
    return schedule


@pytest.mark.parametrize("paused", [False, True])
async def test_a_schedule_is_fired_by_hand_in_addition_to_its_times(
    store: Store, paused: bool
) -> None:
    schedule = replace(REPORT, paused=paused)
    await store.schedule(schedule)

    added = await store.fire("daily", now=T0 - 5)

    assert added is not None
    assert (added.new, added.created_at) == (True, T0 - 5)
    job = await get_one(store, added.id)
    assert (job.state, job.data) == (State.WAITING, {"n": 1})
    assert job.spec.tags == ("schedule:daily",)
    tick = Tick(T0 - 5, T0 - 5, is_manual=True, job=added.id)
    assert await stored(store) == replace(schedule, ticks=(tick,))
    assert (await tend(store, T0)).fired == (0 if paused else 1)


async def test_there_is_nothing_to_fire_without_a_schedule(store: Store) -> None:
    assert await store.fire("daily", now=T0) is None
    assert await count_of(store, "report") == {}


async def test_a_schedule_that_is_fired_by_hand_meets_its_unique_key(
    store: Store,
) -> None:
    holder = await add_one(store, "report", unique="r")
    await store.schedule(
        every("daily", "1m", draft("report", unique="r"), first_at=T0 + MINUTE)
    )

    added = await store.fire("daily", now=T0 + 5)

    assert added is not None
    assert (added.id, added.new, added.created_at) == (holder, False, T0)
    [tick] = (await stored(store)).ticks
    assert (tick.job, tick.status, tick.is_manual) == (0, "duplicate", True)


async def test_firings_by_hand_at_once_are_each_one_job(
    store: Store, other_store: Store
) -> None:
    await store.schedule(REPORT)

    added = await asyncio.gather(
        *(each.fire("daily", now=T0 - 1) for each in (store, other_store) * 3)
    )

    ids = sorted(one.id for one in added if one is not None)
    assert len(set(ids)) == 6
    assert sorted(tick.job for tick in (await stored(store)).ticks) == ids


async def test_a_schedule_is_fired_by_the_clock_of_the_store(store: Store) -> None:
    before = await store.now()
    far = every("daily", "1h", draft("report"), first_at=before + HOUR)
    await store.schedule(far)

    added = await store.fire("daily")

    assert added is not None
    [tick] = (await stored(store)).ticks
    assert tick.fired_at == added.created_at
    assert before <= tick.fired_at <= await store.now()


async def test_a_job_that_was_fired_by_hand_is_settled_as_any_other(
    store: Store,
) -> None:
    await store.schedule(REPORT)
    await store.fire("daily", now=T0 - 10)
    job = await claim_one(store, "report", now=T0 - 8)
    await end(store, job, Completed(), now=T0 - 5)

    await tend(store, T0)

    first, second = (await stored(store)).ticks
    assert (first.status, first.duration, first.job) == ("complete", 3, job.id)
    assert (second.status, second.is_manual) == ("unfinished", False)
