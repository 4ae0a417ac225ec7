"""How schedules fire: their ticks, what they missed, and unfinished jobs they meet."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.job import Cancelled, Completed, Ending, Failed, State
from kue.model.schedule import MAX_CATCH_UP, MAX_TICKS
from kue.model.schedule_options import schedule_of
from kue.store.contract import Store
from kue.store.values import Filter, Limits, RemoveRequest
from tests.support.jobs import (
    HOUR,
    MINUTE,
    OOPS,
    SECOND,
    T0,
    claim,
    claim_one,
    count_of,
    end,
)
from tests.support.schedules import every, moment
from tests.support.upkeep import pass_time, tend

DRAFT = draft("report")


async def ticks(store: Store) -> list[tuple[int, str]]:
    """Return the minutes since T0 of the ticks, and what became of them."""
    [schedule] = await store.schedules("s")
    return [((tick.at - T0) // MINUTE, tick.status) for tick in schedule.ticks]


async def minutes_of_jobs(store: Store) -> list[int]:
    """Return the minutes since T0 that jobs are scheduled for."""
    found, cursor = [], None
    while True:
        page = await store.find(Filter(tag="schedule:s"), cursor=cursor)
        found += [job.spec.meta["scheduled_for"] for job in page.jobs]
        if (cursor := page.cursor) is None:
            break
    times = sorted(datetime.fromisoformat(text) for text in found)
    return [(time - moment(T0)) // timedelta(minutes=1) for time in times]


# -- ticks -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "status"),
    [(Completed(), "complete"), (Failed(OOPS), "failed"), (Cancelled(), "cancelled")],
)
async def test_a_tick_has_the_outcome_of_its_job(
    store: Store, ending: Ending, status: str
) -> None:
    await store.schedule(every("s", "1m", DRAFT, first_at=T0))
    await tend(store, T0)
    assert await ticks(store) == [(0, "unfinished")]
    job = await claim_one(store, "report", now=T0 + 1)
    await end(store, job, ending, now=T0 + 8)

    await tend(store, T0 + MINUTE)

    assert await ticks(store) == [(0, status), (1, "unfinished")]
    [schedule] = await store.schedules()
    first, second = schedule.ticks
    assert (first.job, first.duration, first.fired_at) == (job.id, 7, T0)
    [later] = await claim(store, "report", now=T0 + MINUTE)
    assert second.job == later.id


async def test_the_job_of_a_tick_may_be_removed(store: Store) -> None:
    await store.schedule(every("s", "1m", DRAFT, first_at=T0))
    await tend(store, T0)
    [schedule] = await store.schedules()
    await store.remove(RemoveRequest(schedule.open_jobs))

    await tend(store, T0 + MINUTE)

    assert await ticks(store) == [(0, "removed"), (1, "unfinished")]


@pytest.mark.parametrize("options", [{}, {"delay": "1s"}, {"group": "g"}])
async def test_every_kind_of_job_is_known_to_its_tick(
    store: Store, options: dict[str, Any]
) -> None:
    await store.schedule(every("s", "1m", draft("report", **options), first_at=T0))
    await tend(store, T0)

    [schedule] = await store.schedules()
    page = await store.find(Filter(tag="schedule:s"))
    assert [tick.job for tick in schedule.ticks] == [job.id for job in page.jobs]


async def test_the_newest_ticks_are_kept(store: Store) -> None:
    await store.schedule(every("s", "1m", DRAFT, first_at=T0))

    await pass_time(store, T0, T0 + 14 * MINUTE)

    assert [minute for minute, _ in await ticks(store)] == list(range(5, 15))
    assert len(await minutes_of_jobs(store)) == 15


async def test_a_full_type_gets_no_job_and_the_tick_says_so(store: Store) -> None:
    await store.limit("report", Limits(max_waiting=1), now=T0)
    await store.schedule(every("s", "1m", draft("report"), first_at=T0))
    await pass_time(store, T0, T0 + 2 * MINUTE)

    assert await count_of(store, "report") == {State.WAITING: 1}
    assert await ticks(store) == [(0, "unfinished"), (1, "full"), (2, "full")]


async def test_a_unique_draft_is_not_added_while_the_last_one_is_unfinished(
    store: Store,
) -> None:
    await store.schedule(every("s", "1m", draft("report", unique="r"), first_at=T0))
    await pass_time(store, T0, T0 + 2 * MINUTE)

    assert await count_of(store, "report") == {State.WAITING: 1}
    assert await ticks(store) == [(0, "unfinished"), (1, "duplicate"), (2, "duplicate")]


# -- missed ------------------------------------------------------------------------


async def test_once_makes_up_for_all_it_missed_with_one_job(store: Store) -> None:
    await store.schedule(every("s", "1m", DRAFT, first_at=T0))
    late = T0 + 7 * MINUTE + 30 * SECOND

    assert (await tend(store, late)).fired == 1

    assert await ticks(store) == [(7, "unfinished")]
    [schedule] = await store.schedules()
    assert schedule.next_at == T0 + 8 * MINUTE


async def test_skip_makes_up_for_nothing(store: Store) -> None:
    await store.schedule(every("s", "1h", DRAFT, first_at=T0, missed="skip"))

    assert (await tend(store, T0 + 3 * HOUR + 2 * MINUTE)).fired == 0
    assert await ticks(store) == [(180, "missed")]

    assert (await tend(store, T0 + 4 * HOUR)).fired == 1
    assert await ticks(store) == [(180, "missed"), (240, "unfinished")]


async def test_all_makes_up_for_each(store: Store) -> None:
    await store.schedule(every("s", "1m", DRAFT, first_at=T0, missed="all"))

    assert (await tend(store, T0 + 5 * MINUTE + 1)).fired == 6

    assert await minutes_of_jobs(store) == list(range(6))
    assert await ticks(store) == [(minute, "unfinished") for minute in range(6)]
    assert (await tend(store, T0 + 5 * MINUTE + 1)).fired == 0


async def test_catching_up_is_bounded_and_goes_on_in_later_passes(store: Store) -> None:
    await store.schedule(every("s", "1m", DRAFT, first_at=T0, missed="all"))
    await store.schedule(every("other", "1m", draft("other"), first_at=T0))
    late = T0 + 249 * MINUTE

    fired = [(await store.tend(now=late)).fired for _ in range(4)]

    assert fired == [MAX_CATCH_UP + 1, MAX_CATCH_UP, 250 - 2 * MAX_CATCH_UP, 0]
    assert await minutes_of_jobs(store) == list(range(250))


async def test_catching_up_with_a_small_limit_misses_nothing(store: Store) -> None:
    for name in ("s", "other"):
        await store.schedule(every(name, "1m", draft(name), first_at=T0, missed="all"))

    assert (await tend(store, T0 + 9 * MINUTE, limit=2)).fired == 20

    assert await minutes_of_jobs(store) == list(range(10))


async def test_a_missed_one_off_fires_late_unless_it_skips(store: Store) -> None:
    for missed in ("once", "skip", "all"):
        late = schedule_of(missed, draft(missed), at=moment(T0), now=T0, missed=missed)
        await store.schedule(late)

    assert (await tend(store, T0 + HOUR)).fired == 2

    assert await store.schedules() == []
    assert set(await store.types()) == {"once", "all"}


# -- overlap -----------------------------------------------------------------------


async def test_allow_adds_a_job_whatever_the_last_one_does(store: Store) -> None:
    await store.schedule(every("s", "1m", DRAFT, first_at=T0))
    await pass_time(store, T0, T0 + 2 * MINUTE)

    assert await ticks(store) == [(minute, "unfinished") for minute in range(3)]


async def test_skip_adds_no_job_while_one_waits_or_runs(store: Store) -> None:
    await store.schedule(every("s", "1m", DRAFT, first_at=T0, overlap="skip"))
    await tend(store, T0)
    await tend(store, T0 + MINUTE)
    job = await claim_one(store, "report", now=T0 + MINUTE, lease=HOUR)
    await tend(store, T0 + 2 * MINUTE)
    await end(store, job, Completed(), now=T0 + 2 * MINUTE)
    await tend(store, T0 + 3 * MINUTE)

    assert await ticks(store) == [
        (0, "complete"),
        (1, "overlap"),
        (2, "overlap"),
        (3, "unfinished"),
    ]
    assert await minutes_of_jobs(store) == [0, 3]


async def test_queue_one_has_one_job_wait_while_another_runs(store: Store) -> None:
    await store.schedule(every("s", "1m", DRAFT, first_at=T0, overlap="queue-one"))
    await tend(store, T0)
    job = await claim_one(store, "report", now=T0, lease=HOUR)
    await tend(store, T0 + MINUTE)
    await tend(store, T0 + 2 * MINUTE)
    assert await count_of(store, "report") == {State.ACTIVE: 1, State.WAITING: 1}

    await end(store, job, Failed(OOPS), now=T0 + 2 * MINUTE)
    await claim_one(store, "report", now=T0 + 2 * MINUTE, lease=HOUR)
    await tend(store, T0 + 3 * MINUTE)

    assert await ticks(store) == [
        (0, "failed"),
        (1, "unfinished"),
        (2, "overlap"),
        (3, "unfinished"),
    ]
    assert await count_of(store, "report") == {
        State.FAILED: 1,
        State.ACTIVE: 1,
        State.WAITING: 1,
    }


@pytest.mark.parametrize("overlap", ["skip", "queue-one"])
async def test_a_job_that_waits_for_many_ticks_holds_back_all_of_them(
    store: Store, overlap: str
) -> None:
    await store.schedule(every("s", "1m", DRAFT, first_at=T0, overlap=overlap))

    await pass_time(store, T0, T0 + 2 * MAX_TICKS * MINUTE)

    assert await count_of(store, "report") == {State.WAITING: 1}
    assert (await ticks(store))[0] == (0, "unfinished")


async def test_a_job_by_hand_holds_the_next_tick_back(store: Store) -> None:
    await store.schedule(every("s", "1m", DRAFT, first_at=T0, overlap="skip"))
    await store.fire("s", now=T0 - MINUTE)

    await tend(store, T0)

    assert await ticks(store) == [(-1, "unfinished"), (0, "overlap")]


async def test_what_was_missed_and_overlaps_is_held_back_as_well(store: Store) -> None:
    schedule = every("s", "1m", DRAFT, first_at=T0, missed="all", overlap="skip")
    await store.schedule(schedule)

    assert (await tend(store, T0 + 3 * MINUTE)).fired == 1

    held_back = [(minute, "overlap") for minute in range(1, 4)]
    assert await ticks(store) == [(0, "unfinished"), *held_back]


# -- clocks ------------------------------------------------------------------------


async def test_a_clock_that_is_set_back_and_forth_fires_no_tick_twice(
    store: Store,
) -> None:
    await store.schedule(every("s", "1m", DRAFT, first_at=T0, missed="all"))
    steps = (0, HOUR, 0, 2 * MINUTE, HOUR + MINUTE, -HOUR, HOUR + MINUTE)
    for step, minute in itertools.product(steps, range(3)):
        await tend(store, T0 + step + minute * MINUTE)

    assert await minutes_of_jobs(store) == list(range(64))
