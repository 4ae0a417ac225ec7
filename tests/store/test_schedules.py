"""`Store.schedule`, `unschedule`, `schedules`, and how `tend` fires them."""

from __future__ import annotations

import asyncio

import msgspec

from kue.model.draft import draft
from kue.model.job import State
from kue.model.schedule import Schedule
from kue.store.contract import Store
from kue.store.values import PageRequest
from tests.support.jobs import HOUR, MINUTE, SECOND, T0, add_one, count_of
from tests.support.schedules import every
from tests.support.upkeep import pass_time, tend

REPORT = every("daily", "1m", draft("report", {"n": 1}, priority=-3), first_at=T0)


async def test_a_schedule_is_kept_as_it_was_given(store: Store) -> None:
    schedule = every(
        'learn "vertx" 🚀:{}%',
        "90s",
        draft(
            "email",
            {"to": ["a@b.c"], "big": 2**80},
            priority="high",
            delay="5s",
            attempts=4,
            backoff="1s",
            unique="k",
            group="g",
            ttl="1m",
            expires="1h",
            tags=["t"],
            delivery="at-most-once",
        ),
        first_at=T0 + 5,
    )
    await store.schedule(schedule)

    [kept] = await store.schedules()
    assert kept == schedule
    assert (kept.every, kept.next_at) == (90 * SECOND, T0 + 5)


async def test_schedules_are_told_by_name(store: Store) -> None:
    for name in ("b", "a", "c"):
        await store.schedule(msgspec.structs.replace(REPORT, name=name))

    assert [schedule.name for schedule in await store.schedules()] == ["a", "b", "c"]


async def test_a_schedule_is_changed_by_a_caller_that_has_seen_it(store: Store) -> None:
    hourly = every("daily", "1h", draft("report"), first_at=T0 + HOUR)
    assert await store.schedule(REPORT)

    assert not await store.schedule(hourly)
    assert not await store.schedule(hourly, expected=hourly)
    assert await store.schedule(hourly, expected=REPORT)

    assert await store.schedules() == [hourly]
    assert (await tend(store, T0 + MINUTE)).fired == 0


async def test_a_schedule_that_is_taken_away_fires_no_more(store: Store) -> None:
    await store.schedule(REPORT)

    assert await store.unschedule("daily") is True
    assert await store.unschedule("daily") is False

    assert await store.schedules() == []
    assert (await tend(store, T0 + HOUR)).fired == 0


async def test_a_schedule_fires_when_it_is_due_and_not_before(store: Store) -> None:
    await store.schedule(REPORT)

    assert (await tend(store, T0 - 1)).fired == 0
    assert (await tend(store, T0)).fired == 1

    [job] = (await store.page(PageRequest(State.WAITING, "report"))).jobs
    assert (job.data, job.priority, job.created_at) == ({"n": 1}, -3, T0)


async def test_a_schedule_fires_again_and_again(store: Store) -> None:
    await store.schedule(REPORT)

    tended = await pass_time(store, T0, T0 + 10 * MINUTE)

    assert tended.fired == 11
    assert await count_of(store, "report") == {State.WAITING: 11}


async def test_firings_that_were_missed_are_made_up_for_by_one(store: Store) -> None:
    await store.schedule(REPORT)
    late = T0 + 7 * MINUTE + 30 * SECOND

    assert (await tend(store, late)).fired == 1

    [schedule] = await store.schedules()
    assert schedule.next_at == T0 + 8 * MINUTE


async def test_a_schedule_keeps_its_beat(store: Store) -> None:
    """A late pass does not push the next firing back."""
    await store.schedule(REPORT)
    await tend(store, T0 + 10 * SECOND)

    [schedule] = await store.schedules()
    assert schedule.next_at == T0 + MINUTE


async def test_two_who_tend_at_once_fire_once(store: Store, other_store: Store) -> None:
    """D-36: however many processes have timers, a schedule has one."""
    for number in range(5):
        await store.schedule(
            every(f"s{number}", "1m", draft(f"type {number}"), first_at=T0)
        )

    for minute in range(4):
        now = T0 + minute * MINUTE
        passes = await asyncio.gather(
            *(each.tend(now=now) for each in (store, other_store) * 3)
        )
        assert sum(tended.fired for tended in passes) == 5

    for number in range(5):
        assert await count_of(store, f"type {number}") == {State.WAITING: 4}


async def test_a_scheduled_draft_may_be_delayed(store: Store) -> None:
    await store.schedule(every("later", "1h", draft("report", delay="5m"), first_at=T0))
    await tend(store, T0 + SECOND)

    [job] = (await store.page(PageRequest(State.DELAYED, "report"))).jobs
    assert job.promote_at == T0 + SECOND + 5 * MINUTE


async def test_a_unique_draft_is_not_added_while_the_last_one_is_unfinished(
    store: Store,
) -> None:
    await store.schedule(every("once", "1m", draft("report", unique="r"), first_at=T0))
    await pass_time(store, T0, T0 + 3 * MINUTE)

    assert await count_of(store, "report") == {State.WAITING: 1}
    [schedule] = await store.schedules()
    assert schedule.next_at == T0 + 4 * MINUTE


async def test_fired_jobs_come_after_those_that_wait_already(store: Store) -> None:
    first = await add_one(store, "report", priority=-3)
    await store.schedule(REPORT)
    await tend(store, T0)

    ids = [
        job.id for job in (await store.page(PageRequest(State.WAITING, "report"))).jobs
    ]
    assert ids[0] == first
    assert ids == sorted(ids)


async def test_schedules_are_everybodys(store: Store, other_store: Store) -> None:
    await store.schedule(REPORT)

    assert [schedule.name for schedule in await other_store.schedules()] == ["daily"]
