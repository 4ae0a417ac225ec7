"""Firings of schedules: what they add, miss and hold back."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest

from kue.model.draft import draft
from kue.model.job import Attempt, Job, State
from kue.model.schedule import (
    MAX_TICKS,
    MISSED_MS,
    NEW_JOB,
    Schedule,
    Tick,
    manual_firing,
    next_firing,
    with_job,
)
from kue.model.schedule_options import schedule_of
from tests.support.jobs import DAY, HOUR, MINUTE, SECOND, T0
from tests.support.schedules import every, moment

DRAFT = draft("report", {"n": 1}, tags=["t"])
UNFINISHED = [state for state in State if not state.is_final]


def minutely(**options: Any) -> Schedule:
    return every("s", "1m", DRAFT, first_at=T0, **options)


def one_off(at: int, **options: Any) -> Schedule:
    return schedule_of("s", DRAFT, now=T0, at=moment(at), **options)


def job_in(state: State, job_id: int = 1, *, created_at: int = T0) -> Job:
    """Return the job of a tick, as it is in a store."""
    token = f"7:{created_at + 5}:1:w1:n"
    history = (Attempt(token, created_at + 30, str(state)),)
    return Job(
        id=job_id,
        type="report",
        state=state,
        created_at=created_at,
        spec=DRAFT.spec,
        history=history if state.is_final else (),
    )


def fired(schedule: Schedule, now: int, *jobs: Job | None, job_id: int = 1) -> Schedule:
    """Return a schedule after it has fired, its job being *job_id*."""
    known = dict(zip(schedule.open_jobs, jobs, strict=True))
    firing = next_firing(schedule, now, known)
    assert firing.after is not None
    return with_job(firing.after, job_id if firing.draft else 0)


def statuses(schedule: Schedule) -> list[str]:
    return [tick.status for tick in schedule.ticks]


# -- what was missed ---------------------------------------------------------------


def test_a_tick_fires_once_and_the_next_is_due_an_interval_later() -> None:
    firing = next_firing(minutely(), T0 + 5, {})

    assert firing.draft is not None
    assert firing.draft.spec.tags == ("t", "schedule:s")
    assert firing.draft.spec.meta == {"scheduled_for": "2027-01-15T08:00:00.000+00:00"}
    assert firing.after is not None
    assert firing.after.due_at == T0 + MINUTE
    assert firing.after.ticks == (Tick(T0, T0 + 5, job=NEW_JOB),)


@pytest.mark.parametrize(("missed", "is_added"), [("once", True), ("skip", False)])
@pytest.mark.parametrize("gap", [2 * HOUR, 400 * DAY])
def test_a_long_gap_is_one_tick(missed: str, is_added: bool, gap: int) -> None:
    schedule = every("s", "1h", DRAFT, first_at=T0, missed=missed)

    firing = next_firing(schedule, T0 + gap + MISSED_MS + 1, {})

    assert (firing.draft is not None) == is_added
    assert firing.after is not None
    [tick] = firing.after.ticks
    assert (tick.at, tick.outcome) == (T0 + gap, "" if is_added else "missed")
    assert firing.after.due_at == T0 + gap + HOUR


def test_a_tick_that_is_a_little_late_is_not_missed() -> None:
    schedule = every("s", "1h", DRAFT, first_at=T0, missed="skip")

    assert statuses(fired(schedule, T0 + MISSED_MS)) == ["unfinished"]
    assert statuses(fired(schedule, T0 + MISSED_MS + 1)) == ["missed"]


def test_after_a_gap_skip_fires_the_tick_of_now() -> None:
    """What was missed is left out, and what is due now is not."""
    schedule = minutely(missed="skip")

    after = fired(schedule, T0 + 7 * MINUTE + SECOND)

    assert [(one.at, one.status) for one in after.ticks] == [
        (T0 + 7 * MINUTE, "unfinished")
    ]


def test_all_fires_each_tick_of_a_gap_in_order() -> None:
    schedule, now = minutely(missed="all"), T0 + 7 * MINUTE + SECOND
    for number in itertools.count(1):
        if not schedule.is_due(now):
            break
        jobs = [job_in(State.WAITING, i, created_at=now) for i in schedule.open_jobs]
        schedule = fired(schedule, now, *jobs, job_id=number)

    assert [tick.at for tick in schedule.ticks] == [
        T0 + number * MINUTE for number in range(8)
    ]
    assert schedule.due_at == T0 + 8 * MINUTE


def test_what_was_missed_before_the_end_is_made_up_for_and_then_it_has_ended() -> None:
    schedule = minutely(end=moment(T0 + 2 * MINUTE + 1))

    after = fired(schedule, T0 + DAY)

    assert [tick.at for tick in after.ticks] == [T0 + 2 * MINUTE]
    assert (after.due_at, after.next_at) == (None, None)
    assert not after.is_due(T0 + 9 * DAY)


def test_a_jittered_tick_is_not_missed_while_it_waits() -> None:
    schedule = every("s", "1h", DRAFT, first_at=T0, jitter="30m", missed="skip")
    assert schedule.next_at is not None

    after = fired(schedule, schedule.next_at)

    assert [(tick.at, tick.status) for tick in after.ticks] == [(T0, "unfinished")]
    assert after.due_at == T0 + HOUR


# -- overlap -----------------------------------------------------------------------


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("overlap", ["allow", "skip", "queue-one"])
def test_an_unfinished_job_holds_the_next_one_back(overlap: str, state: State) -> None:
    schedule = fired(minutely(overlap=overlap), T0)

    after = fired(schedule, T0 + MINUTE, job_in(state), job_id=2)

    is_held_back = {
        "allow": False,
        "skip": not state.is_final,
        "queue-one": not state.is_final and state is not State.ACTIVE,
    }[overlap]
    first = str(state) if state.is_final else "unfinished"
    assert statuses(after) == [first, "overlap" if is_held_back else "unfinished"]
    assert after.due_at == T0 + 2 * MINUTE


def test_queue_one_lets_one_wait_while_another_runs() -> None:
    schedule = fired(minutely(overlap="queue-one"), T0)
    runs = job_in(State.ACTIVE)
    schedule = fired(schedule, T0 + MINUTE, runs, job_id=2)
    waits = job_in(State.WAITING, 2, created_at=T0 + MINUTE)

    schedule = fired(schedule, T0 + 2 * MINUTE, runs, waits, job_id=3)

    assert statuses(schedule) == ["unfinished", "unfinished", "overlap"]


@pytest.mark.parametrize("overlap", ["skip", "queue-one"])
def test_a_job_that_takes_many_ticks_holds_back_all_of_them(overlap: str) -> None:
    schedule = fired(minutely(overlap=overlap), T0)
    for number in range(1, 3 * MAX_TICKS):
        state = State.ACTIVE if overlap == "skip" else State.DELAYED
        schedule = fired(schedule, T0 + number * MINUTE, job_in(state), job_id=9)

    assert statuses(schedule) == ["unfinished"] + ["overlap"] * (MAX_TICKS - 1)
    assert schedule.ticks[-1].at == T0 + (3 * MAX_TICKS - 1) * MINUTE


def test_a_job_that_is_gone_holds_nothing_back() -> None:
    schedule = fired(minutely(overlap="skip"), T0)

    assert statuses(fired(schedule, T0 + MINUTE, None)) == ["removed", "unfinished"]


def test_another_job_that_has_the_id_now_is_not_that_of_the_tick() -> None:
    """The store lost its last writes and gave the id again."""
    schedule = fired(minutely(overlap="skip"), T0)
    other = job_in(State.ACTIVE, created_at=T0 + 1)

    assert statuses(fired(schedule, T0 + MINUTE, other)) == ["removed", "unfinished"]


# -- ticks that are kept -----------------------------------------------------------


def test_a_tick_keeps_how_its_job_ended_and_how_long_it_took() -> None:
    schedule = fired(minutely(), T0)

    [tick] = schedule.settled({1: job_in(State.FAILED)}).ticks

    assert (tick.status, tick.duration, tick.job) == ("failed", 25, 1)
    assert not tick.is_open


@pytest.mark.parametrize("state", UNFINISHED)
def test_the_tick_of_an_unfinished_job_stays_open(state: State) -> None:
    schedule = fired(minutely(), T0)

    assert schedule.settled({1: job_in(state)}) == schedule
    assert schedule.open_jobs == [1]
    assert schedule.settled({}) == schedule


def test_a_tick_without_a_job_was_a_duplicate() -> None:
    assert statuses(fired(minutely(), T0, job_id=0)) == ["duplicate"]


@pytest.mark.parametrize("state", [State.WAITING, State.COMPLETE])
def test_the_newest_ten_ticks_are_kept(state: State) -> None:
    schedule = minutely()
    for number in range(MAX_TICKS + 5):
        now = T0 + number * MINUTE
        jobs = [
            job_in(state, tick.job, created_at=tick.fired_at)
            for tick in schedule.ticks
            if tick.is_open
        ]
        schedule = fired(schedule, now, *jobs, job_id=number + 1)

    assert [tick.job for tick in schedule.ticks] == list(range(6, MAX_TICKS + 6))


# -- one-offs, by hand, as text -----------------------------------------------------


def test_a_one_off_is_over_once_it_has_fired() -> None:
    schedule = one_off(T0 + HOUR)
    assert (schedule.is_one_off, schedule.due_at) == (True, T0 + HOUR)

    firing = next_firing(schedule, T0 + HOUR, {})

    assert firing.after is None
    assert firing.draft is not None
    assert firing.draft.spec.data == {"n": 1}


def test_a_one_off_that_was_missed_is_over_as_well() -> None:
    firing = next_firing(one_off(T0, missed="skip"), T0 + HOUR, {})

    assert firing == (None, None)


def test_running_it_by_hand_leaves_its_next_time_alone() -> None:
    schedule = fired(minutely(overlap="skip"), T0)

    firing = manual_firing(schedule, T0 + 5, {1: job_in(State.ACTIVE)})

    assert firing.draft is not None
    assert firing.draft.spec.meta == {"scheduled_for": "2027-01-15T08:00:00.005+00:00"}
    assert firing.after is not None
    assert firing.after.due_at == schedule.due_at
    assert firing.after.ticks[-1] == Tick(T0 + 5, T0 + 5, is_manual=True, job=NEW_JOB)


def test_a_one_off_that_is_run_by_hand_stays() -> None:
    firing = manual_firing(one_off(T0 + HOUR), T0, {})

    assert firing.after is not None
    assert firing.after.next_at == T0 + HOUR


def test_a_schedule_survives_being_stored() -> None:
    schedule = fired(minutely(jitter="5s", overlap="skip"), T0 + 5)

    back = msgspec.json.decode(msgspec.json.encode(schedule), type=Schedule)

    assert back == schedule
    assert back.draft.spec.data == {"n": 1}


def test_the_text_of_a_schedule_that_fires_ends_with_the_id_of_its_job() -> None:
    """Scripts of Redis complete it."""
    firing = next_firing(minutely(), T0, {})

    assert msgspec.json.encode(firing.after).endswith(b"%d]]}" % NEW_JOB)
