"""Schedules: when the next job is due."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.model.draft import draft
from kue.model.job import Draft, Spec
from kue.model.schedule import Schedule, every

DRAFT = Draft(type="report", spec=Spec())
times = st.integers(0, 10**13)
schedules = st.builds(
    Schedule,
    name=st.just("nightly"),
    draft=st.just(DRAFT),
    every=st.integers(10**10),
    next_at=times,
)


@given(schedules, times)
def test_the_next_firing_is_in_the_future(schedule: Schedule, now: int) -> None:
    assert schedule.following(now) > now


@given(schedules, times)
def test_the_beat_is_kept(schedule: Schedule, now: int) -> None:
    assert (schedule.following(now) - schedule.next_at) % schedule.every == 0


@given(schedules, st.integers(0, 10**13))
def test_missed_firings_are_made_up_for_by_one(schedule: Schedule, late: int) -> None:
    now = schedule.next_at + late

    assert schedule.following(now) - now <= schedule.every


def test_a_firing_in_time_is_followed_by_one_an_interval_later() -> None:
    schedule = every("nightly", "1h", DRAFT, first_at=5_000)

    assert schedule.next_at == 5_000
    assert schedule.following(5_000) == 5_000 + 3_600_000


def test_a_schedule_survives_being_stored() -> None:
    schedule = every(
        "nightly", "1h", draft("report", {"n": 1}, backoff="5s"), first_at=5
    )

    back = msgspec.json.decode(msgspec.json.encode(schedule), type=Schedule)

    assert back.draft.spec.data == {"n": 1}
    assert back.draft.spec.backoff == schedule.draft.spec.backoff
    assert (back.name, back.every, back.next_at) == ("nightly", 3_600_000, 5)


def test_an_interval_that_is_a_busy_loop_is_refused() -> None:
    assert every("fast", 0.1, DRAFT, first_at=0).every == MIN_EVERY_MS

    with pytest.raises(ValueError, match=r"every must be at least 100 ms, not '99ms'"):
        every("fast", "99ms", DRAFT, first_at=0)


def test_a_schedule_has_a_name() -> None:
    with pytest.raises(ValueError, match=r"schedule name must have 1 to 200 bytes"):
        every("", "1h", DRAFT, first_at=0)
