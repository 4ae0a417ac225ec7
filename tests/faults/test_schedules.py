"""Each tick of a schedule has one job, whatever happens to those who fire it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from random import Random

import pytest
from msgspec.structs import replace

from kue.model.draft import draft
from kue.model.errors import StoreUnavailable
from kue.model.job import Draft
from kue.model.schedule import Schedule
from kue.store.contract import Store
from kue.store.values import Filter
from tests.faults.conftest import NewStore, assert_sound
from tests.faults.forgetful import Forgetful
from tests.faults.processes import Process
from tests.faults.program import PATIENT, TYPE
from tests.faults.sentinels import Replicated
from tests.support.jobs import MINUTE, SECOND, T0, add_one
from tests.support.patience import eventually
from tests.support.proxy import Fate, Proxy
from tests.support.schedules import every, moment
from tests.support.upkeep import tend

DRAFT = draft("report")
#: Often enough that a process is killed while it fires.
QUICK_MS = 100
KILLS = 2
#: Between two kills; a worker makes a pass about once per second.
SPAN_MS = 500


async def ticks_of_jobs(store: Store) -> list[int]:
    """Return the times that the jobs of the schedule are for, Unix ms."""
    found, cursor = [], None
    while True:
        page = await store.find(Filter(tag="schedule:s"), cursor=cursor)
        found += [job.spec.meta["scheduled_for"] for job in page.jobs]
        if (cursor := page.cursor) is None:
            break
    times = [datetime.fromisoformat(text) - moment(0) for text in found]
    return sorted(time // timedelta(milliseconds=1) for time in times)


async def stored(store: Store) -> Schedule:
    [schedule] = await store.schedules("s")
    return schedule


def minutely(drawn: Draft = DRAFT, **options: str) -> Schedule:
    return every("s", "1m", drawn, first_at=T0, missed="all", **options)


def minutes(count: int) -> list[int]:
    return [T0 + number * MINUTE for number in range(count)]


# -- processes ---------------------------------------------------------------------


async def until_fired(store: Store) -> None:
    """Wait until others have fired the schedule for a while, and do right now."""
    due_at = (await stored(store)).due_at or 0

    async def has_fired() -> bool:
        return ((await stored(store)).due_at or 0) > due_at + SPAN_MS

    await eventually(has_fired)


@pytest.mark.parametrize("role", ["run", "tend"])
async def test_processes_that_are_killed_fire_each_tick_once(
    store: Store, url: str, prefix: str, role: str
) -> None:
    """Two workers, or two processes that fire at the same time, all the time."""
    first = await store.now()
    quick = every(
        "s", QUICK_MS / 1000, draft(TYPE, {"seconds": 0}), first_at=first, missed="all"
    )
    await store.schedule(quick)

    async with AsyncExitStack() as running:
        workers = [
            await running.enter_async_context(Process(role, url, prefix, PATIENT))
            for _ in range(2)
        ]
        for _ in range(KILLS):
            await until_fired(store)
            workers.pop(0).kill()
            heir = Process(role, url, prefix, PATIENT)
            workers.append(await running.enter_async_context(heir))
        await until_fired(store)

    due_at = (await stored(store)).due_at
    assert due_at is not None
    assert await ticks_of_jobs(store) == list(range(first, due_at, QUICK_MS))


# -- lost answers ------------------------------------------------------------------


@pytest.mark.parametrize("fate", [Fate.CUT_BEFORE, Fate.CUT_AFTER, Fate.MUTE])
@pytest.mark.parametrize("options", [{}, {"delay": "1s"}])
async def test_a_firing_whose_answer_is_lost_adds_one_job(
    proxied: Store, direct: Store, proxy: Proxy, fate: Fate, options: dict[str, str]
) -> None:
    await direct.schedule(minutely(draft("report", delay=options.get("delay", 0))))
    # Of the pass, of the first firing, and of that which is said again.
    proxy.plan(Fate.PASS, fate, fate)

    await proxied.tend(now=T0 + 2 * MINUTE)

    assert proxy.struck[fate] == 2
    assert await ticks_of_jobs(direct) == minutes(3)
    schedule = await stored(direct)
    assert len({tick.job for tick in schedule.ticks} - {0}) == 3


@pytest.mark.parametrize("fate", [Fate.CUT_BEFORE, Fate.CUT_AFTER, Fate.MUTE])
async def test_a_firing_by_hand_whose_answer_is_lost_adds_one_job(
    proxied: Store, direct: Store, proxy: Proxy, fate: Fate
) -> None:
    await direct.schedule(minutely())
    proxy.plan(fate, fate)

    added = await proxied.fire("s", now=T0 - SECOND)

    assert added is not None
    assert proxy.struck[fate] == 2
    assert await ticks_of_jobs(direct) == [T0 - SECOND]
    assert [tick.job for tick in (await stored(direct)).ticks] == [added.id]


@pytest.mark.parametrize("seed", range(3))
async def test_passes_in_random_trouble_fire_each_tick_once(
    proxied: Store, direct: Store, proxy: Proxy, seed: int
) -> None:
    await direct.schedule(minutely(overlap="allow"))
    proxy.draw(
        Random(seed), {Fate.CUT_BEFORE: 0.1, Fate.CUT_AFTER: 0.2, Fate.MUTE: 0.02}
    )

    for now in range(T0, T0 + 20 * MINUTE, 2 * MINUTE):
        await asyncio.gather(
            *(store.tend(now=now) for store in (proxied, proxied, direct))
        )

    assert proxy.struck[Fate.CUT_AFTER] > 0
    await tend(direct, T0 + 20 * MINUTE)
    assert await ticks_of_jobs(direct) == minutes(21)


async def test_a_firing_that_arrives_late_does_nothing(
    proxy: Proxy, direct: Store, new_store: NewStore
) -> None:
    """Its process gave up, and others fired in the meantime."""
    hasty = new_store(proxy.url, budget="2s")
    await direct.schedule(minutely())
    # From then on Redis knows the scripts, and each call is one.
    await add_one(direct, "other", now=T0 - MINUTE)
    await hasty.tend(now=T0 - MINUTE)
    proxy.plan(Fate.PASS, Fate.HOLD, *[Fate.CUT_BEFORE] * 1000)
    with pytest.raises(StoreUnavailable):
        await hasty.tend(now=T0)
    assert proxy.struck[Fate.HOLD] == 1
    await tend(direct, T0 + MINUTE)

    assert b"LATE" in await proxy.release()

    assert await ticks_of_jobs(direct) == minutes(2)


# -- lost writes -------------------------------------------------------------------


@pytest.mark.parametrize("overlap", ["allow", "queue-one"])
async def test_ticks_whose_writes_were_lost_fire_again_and_once(
    forgetful: Forgetful, new_store: NewStore, overlap: str
) -> None:
    store = new_store(forgetful.url, budget="60s")
    schedule = minutely(overlap=overlap)
    await store.schedule(schedule)
    await tend(store, T0)
    forgetful.remember()
    await tend(store, T0 + 3 * MINUTE)
    forgetful.lose_writes()

    assert len((await stored(store)).ticks) == 1
    for minute in range(2, 6):
        await tend(store, T0 + minute * MINUTE + SECOND)

    times = await ticks_of_jobs(store)
    assert times == (minutes(6) if overlap == "allow" else minutes(1))
    assert [tick.at for tick in (await stored(store)).ticks] == minutes(6)
    await assert_sound(store)


async def test_a_change_whose_write_was_lost_is_not_taken_for_granted(
    forgetful: Forgetful, new_store: NewStore
) -> None:
    store = new_store(forgetful.url, budget="60s")
    schedule = minutely()
    await store.schedule(schedule)
    forgetful.remember()
    paused = replace(schedule, paused=True)
    assert await store.schedule(paused, expected=schedule)
    forgetful.lose_writes()

    resumed = paused.resumed(T0)
    assert not await store.schedule(resumed, expected=paused)
    assert await store.schedules() == [schedule]


async def test_a_master_that_is_lost_fires_for_nobody(
    pair: Replicated, new_store: NewStore
) -> None:
    old = new_store(pair.master.url)
    await old.schedule(minutely())
    await tend(old, T0)
    pair.promote()
    await tend(old, T0 + 2 * MINUTE)
    assert await ticks_of_jobs(old) == minutes(3)
    pair.master.kill()

    store = new_store(pair.replica.url)
    await tend(store, T0 + 3 * MINUTE)

    assert await ticks_of_jobs(store) == minutes(4)
    ids = [tick.job for tick in (await stored(store)).ticks]
    assert sorted(set(ids)) == ids
    await assert_sound(store)
