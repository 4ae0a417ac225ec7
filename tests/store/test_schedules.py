"""`Store.schedule`, `unschedule` and `schedules`, and when `tend` fires them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from kue.model.draft import draft
from kue.model.job import State
from kue.model.schedule import Schedule
from kue.model.schedule_options import schedule_of
from kue.store.contract import Store
from kue.store.validation import InvalidCall
from kue.store.values import Filter, PageRequest
from tests.support.jobs import (
    HOUR,
    MINUTE,
    SECOND,
    T0,
    add_one,
    count_of,
)
from tests.support.schedules import every, moment
from tests.support.upkeep import pass_time, tend

REPORT = every("daily", "1m", draft("report", {"n": 1}, priority=-3), first_at=T0)


async def stored(store: Store, name: str = "daily") -> Schedule:
    [schedule] = await store.schedules(name)
    return schedule


async def scheduled_for(store: Store, tag: str = "schedule:daily") -> list[str]:
    page = await store.find(Filter(tag=tag))
    return sorted(job.spec.meta["scheduled_for"] for job in page.jobs)


# -- written and read --------------------------------------------------------------


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
        end=moment(T0 + HOUR),
        tz="Europe/Berlin",
        missed="all",
        overlap="queue-one",
        declared_by="shop.tasks",
    )
    assert await store.schedule(schedule) is True

    [kept] = await store.schedules()
    assert kept == schedule
    assert (kept.every, kept.next_at) == (90 * SECOND, T0 + 5)


async def test_schedules_are_read_by_name(store: Store) -> None:
    for name in ("b", "a", "c"):
        await store.schedule(replace(REPORT, name=name))

    assert [schedule.name for schedule in await store.schedules()] == ["a", "b", "c"]
    assert [schedule.name for schedule in await store.schedules("b")] == ["b"]
    assert await store.schedules("d") == []


async def test_schedules_are_everybodys(store: Store, other_store: Store) -> None:
    await store.schedule(REPORT)

    assert await other_store.schedules() == [REPORT]


async def test_a_new_schedule_takes_no_name_that_is_taken(store: Store) -> None:
    hourly = every("daily", "1h", draft("report"), first_at=T0 + HOUR)
    assert await store.schedule(REPORT) is True

    assert await store.schedule(hourly) is False
    assert await store.schedule(REPORT) is False
    assert await store.schedules() == [REPORT]


async def test_a_schedule_is_changed_by_a_caller_that_has_seen_it(store: Store) -> None:
    hourly = every("daily", "1h", draft("report"), first_at=T0 + HOUR)
    assert await store.schedule(hourly, expected=REPORT) is False
    assert await store.schedule(REPORT) is True

    assert await store.schedule(hourly, expected=hourly) is False
    assert await store.schedule(REPORT, expected=REPORT) is True
    assert await store.schedule(hourly, expected=REPORT) is True
    assert await store.schedule(REPORT, expected=REPORT) is False

    assert await store.schedules() == [hourly]
    assert (await tend(store, T0 + MINUTE)).fired == 0


async def test_a_schedule_that_fired_since_it_was_read_is_not_overwritten(
    store: Store, other_store: Store
) -> None:
    await store.schedule(REPORT)
    await tend(other_store, T0)

    assert await store.schedule(replace(REPORT, paused=True), expected=REPORT) is False

    fired = await stored(store)
    assert await store.schedule(replace(fired, paused=True), expected=fired) is True


async def test_of_several_that_change_a_schedule_at_once_one_does(
    store: Store, other_store: Store
) -> None:
    await store.schedule(REPORT)

    done = await asyncio.gather(
        *(
            each.schedule(replace(REPORT, jitter=number), expected=REPORT)
            for number, each in enumerate((store, other_store) * 3, start=1)
        )
    )

    assert sorted(done) == [False] * 5 + [True]
    assert (await stored(store)).jitter == done.index(True) + 1


@pytest.mark.parametrize("changes", [{"name": "other"}, {"draft": draft("email")}])
async def test_a_schedule_keeps_its_name_and_type(
    store: Store, changes: dict[str, Any]
) -> None:
    await store.schedule(REPORT)

    with pytest.raises(
        InvalidCall, match=r"'daily' cannot change its name or the type"
    ):
        await store.schedule(replace(REPORT, **changes), expected=REPORT)


async def test_a_schedule_that_is_taken_away_fires_no_more(store: Store) -> None:
    await store.schedule(REPORT)

    assert await store.unschedule("daily") is True
    assert await store.unschedule("daily") is False

    assert await store.schedules() == []
    assert (await tend(store, T0 + HOUR)).fired == 0


# -- due ---------------------------------------------------------------------------


async def test_a_schedule_fires_when_it_is_due_and_not_before(store: Store) -> None:
    await store.schedule(REPORT)

    assert (await tend(store, T0 - 1)).fired == 0
    assert (await tend(store, T0)).fired == 1

    [job] = (await store.page(PageRequest(State.WAITING, "report"))).jobs
    assert (job.data, job.priority, job.created_at) == ({"n": 1}, -3, T0)
    assert job.spec.tags == ("schedule:daily",)
    assert job.spec.meta == {"scheduled_for": "2027-01-15T08:00:00.000+00:00"}


async def test_a_schedule_fires_again_and_again(store: Store) -> None:
    await store.schedule(REPORT)

    tended = await pass_time(store, T0, T0 + 10 * MINUTE)

    assert tended.fired == 11
    assert await count_of(store, "report") == {State.WAITING: 11}
    assert len(set(await scheduled_for(store))) == 11


async def test_a_schedule_keeps_its_beat(store: Store) -> None:
    """A late pass does not push the next firing back."""
    await store.schedule(REPORT)
    await tend(store, T0 + 10 * SECOND)

    assert (await stored(store)).next_at == T0 + MINUTE


async def test_a_cron_expression_fires_by_local_clocks(store: Store) -> None:
    """T0 is 8:00 in UTC, and 9:00 in Berlin."""
    await store.schedule(
        schedule_of(
            "daily", draft("report"), cron="5 9 * * *", tz="Europe/Berlin", now=T0
        )
    )

    tended = await pass_time(store, T0, T0 + 10 * MINUTE)

    assert tended.fired == 1
    assert await scheduled_for(store) == ["2027-01-15T08:05:00.000+00:00"]


async def test_jitter_delays_a_firing_and_not_its_tick(store: Store) -> None:
    schedule = every("daily", "1h", draft("report"), first_at=T0, jitter="30m")
    await store.schedule(schedule)
    assert schedule.next_at is not None
    assert schedule.next_at > T0

    assert (await tend(store, schedule.next_at - 1)).fired == 0
    assert (await tend(store, schedule.next_at)).fired == 1

    [tick] = (await stored(store)).ticks
    assert (tick.at, tick.fired_at) == (T0, schedule.next_at)


async def test_a_schedule_that_has_ended_stays_and_fires_no_more(store: Store) -> None:
    end_at = moment(T0 + 2 * MINUTE)
    await store.schedule(every("daily", "1m", draft("report"), first_at=T0, end=end_at))

    tended = await pass_time(store, T0, T0 + 5 * MINUTE)

    assert tended.fired == 3
    ended = await stored(store)
    assert (ended.next_at, len(ended.ticks)) == (None, 3)


async def test_a_one_off_fires_once_and_is_gone(store: Store) -> None:
    once = schedule_of("daily", draft("report"), at=moment(T0 + MINUTE), now=T0)
    await store.schedule(once)

    tended = await pass_time(store, T0, T0 + 5 * MINUTE)

    assert tended.fired == 1
    assert await store.schedules() == []
    assert await scheduled_for(store) == ["2027-01-15T08:01:00.000+00:00"]


async def test_a_paused_schedule_does_not_fire(store: Store) -> None:
    await store.schedule(REPORT)
    paused = replace(REPORT, paused=True)
    await store.schedule(paused, expected=REPORT)

    assert (await pass_time(store, T0, T0 + 3 * MINUTE)).fired == 0

    resumed = paused.resumed(T0 + 3 * MINUTE)
    assert await store.schedule(resumed, expected=paused)
    assert (await tend(store, T0 + 3 * MINUTE)).fired == 0
    assert (await tend(store, T0 + 4 * MINUTE)).fired == 1


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


async def test_many_who_catch_up_at_once_fire_each_tick_once(
    store: Store, other_store: Store
) -> None:
    """A call fires many schedules; some of them have been fired by others since."""
    for number in range(12):
        behind = T0 - number % 4 * MINUTE
        await store.schedule(
            every(f"s{number}", "1m", draft("report"), first_at=behind, missed="all")
        )

    passes = await asyncio.gather(
        *(
            each.tend(now=T0, limit=limit)
            for each in (store, other_store) * 2
            for limit in (5, 7, 500)
        )
    )
    more = await tend(store, T0)

    # Each fourth has 1, 2, 3 or 4 ticks.
    assert sum(tended.fired for tended in (*passes, more)) == 3 * (1 + 2 + 3 + 4)
    for number in range(12):
        page = await store.find(Filter(tag=f"schedule:s{number}"))
        ticks = {job.spec.meta["scheduled_for"] for job in page.jobs}
        assert len(page.jobs) == len(ticks) == number % 4 + 1


async def test_a_scheduled_draft_may_be_delayed(store: Store) -> None:
    await store.schedule(every("later", "1h", draft("report", delay="5m"), first_at=T0))
    await tend(store, T0 + SECOND)

    [job] = (await store.page(PageRequest(State.DELAYED, "report"))).jobs
    assert job.promote_at == T0 + SECOND + 5 * MINUTE


async def test_fired_jobs_come_after_those_that_wait_already(store: Store) -> None:
    first = await add_one(store, "report", priority=-3)
    await store.schedule(REPORT)
    await tend(store, T0)

    ids = [
        job.id for job in (await store.page(PageRequest(State.WAITING, "report"))).jobs
    ]
    assert ids[0] == first
    assert ids == sorted(ids)
