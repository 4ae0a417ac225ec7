"""Schedules: when they are due, and how that is put in words."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kue.model.draft import draft
from kue.model.schedule import (
    Schedule,
    tag_of,
)
from kue.model.schedule_options import schedule_of
from tests.support.jobs import DAY, HOUR, MINUTE, SECOND, T0
from tests.support.schedules import every, moment

DRAFT = draft("report", {"n": 1}, tags=["t"])


def minutely(**options: Any) -> Schedule:
    return every("s", "1m", DRAFT, first_at=T0, **options)


# -- ticks -------------------------------------------------------------------------

intervals = st.builds(
    lambda interval, first, end: replace(
        minutely(), every=interval, starts_at=first, due_at=first, ends_at=end
    ),
    st.integers(100, 10 * DAY),
    st.integers(T0 - DAY, T0 + DAY),
    st.none() | st.integers(T0 + DAY, T0 + 30 * DAY),
)
crons = st.builds(
    lambda cron, tz, end: replace(
        minutely(), every=0, cron=cron, tz=tz, starts_at=None, ends_at=end
    ),
    st.sampled_from(["*/7 * * * *", "0 3 * * *", "30 2 * * sun", "0 0 1 * *"]),
    st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"]),
    st.none() | st.integers(T0 + DAY, T0 + 300 * DAY),
)
moments = st.integers(T0 - 2 * DAY, T0 + 200 * DAY)


@given(intervals | crons, moments)
def test_a_tick_comes_after_the_moment_and_not_after_the_end(
    schedule: Schedule, now: int
) -> None:
    tick = schedule.tick_after(now)

    assert tick is None or now < tick <= (schedule.ends_at or tick)
    if schedule.ends_at is None:
        assert tick is not None


@given(intervals, moments)
def test_an_interval_keeps_its_beat(schedule: Schedule, now: int) -> None:
    tick = schedule.tick_after(now)

    assert schedule.starts_at is not None
    if tick is not None:
        assert tick >= schedule.starts_at
        assert (tick - schedule.starts_at) % schedule.every == 0
        assert tick == schedule.starts_at or tick - now <= schedule.every


@given(intervals | crons, moments, st.integers(0, 20 * DAY))
def test_the_last_tick_until_a_moment_is_that_of_going_forward(
    schedule: Schedule, since: int, span: int
) -> None:
    due = schedule.tick_after(since)
    if due is None:
        return
    schedule = replace(schedule, due_at=due)
    last = schedule.tick_until(due + span)

    assert due <= last <= due + span
    assert last == due or schedule.tick_after(last - 1) == last
    following = schedule.tick_after(last)
    assert following is None or following > due + span


def test_no_tick_is_before_the_start() -> None:
    daily = schedule_of(
        "s", DRAFT, cron="0 0 * * *", start=moment(T0 + 10 * DAY), now=T0
    )

    assert daily.due_at is not None
    assert T0 + 10 * DAY <= daily.due_at <= T0 + 11 * DAY
    assert minutely().tick_after(0) == T0


def test_the_end_is_the_last_moment_for_a_tick() -> None:
    schedule = minutely(end=moment(T0 + 2 * MINUTE))

    coming = list(schedule.upcoming(9, since=T0 - 1))

    assert coming == [T0, T0 + MINUTE, T0 + 2 * MINUTE]
    assert list(schedule.upcoming(2, since=T0 - 1)) == coming[:2]


# -- jitter ------------------------------------------------------------------------


@given(st.integers(0, 59_999), st.text(max_size=5), st.integers(0, 10_000))
def test_jitter_is_the_same_everywhere_and_within_its_bounds(
    jitter: int, name: str, number: int
) -> None:
    due = T0 + number * MINUTE
    schedule = replace(minutely(), name=name, jitter=jitter, due_at=due)
    copy = msgspec.json.decode(msgspec.json.encode(schedule), type=Schedule)

    assert schedule.next_at is not None
    assert due <= schedule.next_at <= due + jitter
    assert copy.next_at == schedule.next_at


def test_jitter_spreads_schedules_and_ticks() -> None:
    times = {
        replace(minutely(), name=f"s{number}", jitter=50 * SECOND).next_at
        for number in range(50)
    }

    assert len(times) > 40


# -- paused, and in words ---------------------------------------------------------


def test_a_one_off_that_is_resumed_after_its_time_is_due_at_once() -> None:
    once = schedule_of("once", draft("report"), now=T0, at=moment(T0 + MINUTE))

    resumed = replace(once, paused=True).resumed(T0 + HOUR)

    assert resumed.is_due(T0 + HOUR)


def test_a_paused_schedule_is_not_due_until_it_is_resumed() -> None:
    paused = replace(minutely(), paused=True)
    assert (paused.next_at, paused.is_due(T0 + DAY)) == (None, False)

    resumed = paused.resumed(T0 + 5 * MINUTE)

    assert resumed.next_at == T0 + 6 * MINUTE
    assert list(paused.upcoming(1, since=T0)) == [T0 + MINUTE]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"every": "10m"}, "every 10 minutes"),
        ({"every": "1m"}, "every minute"),
        ({"every": "90m"}, "every 90 minutes"),
        ({"every": "2w"}, "every 2 weeks"),
        ({"every": 0.25}, "every 250 milliseconds"),
        (
            {"cron": "0 9 * * mon-fri", "tz": "Europe/Berlin"},
            "every weekday at 9:00, Berlin",
        ),
        ({"cron": "@daily"}, "every day at 0:00, UTC"),
        ({"at": moment(T0)}, "once, on 2027-01-15 at 08:00:00 UTC"),
    ],
)
def test_a_schedule_is_described_in_words(options: Any, words: str) -> None:
    assert schedule_of("s", DRAFT, now=T0, **options).words == words


def test_jobs_of_a_schedule_are_found_by_a_tag() -> None:
    assert tag_of("nightly report") == "schedule:nightly report"
