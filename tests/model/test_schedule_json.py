"""A schedule as JSON."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kue.model import cron
from kue.model.draft import draft
from kue.model.schedule import Tick
from kue.model.schedule_json import UPCOMING, schedule_detail, schedule_view
from kue.model.schedule_options import schedule_of
from tests.support.jobs import HOUR, MINUTE, T0
from tests.support.schedules import every

REPORT = every(
    "s", "1m", draft("report", {"n": 1}, delivery="at-most-once"), first_at=T0
)


def test_a_view_has_the_coming_times_and_the_last_ticks() -> None:
    ticks = (Tick(T0 - 9, T0, job=7), Tick(T0 - 5, T0, outcome="overlap"))

    view = schedule_view(replace(REPORT, ticks=ticks), now=T0)

    assert view.upcoming == [T0 + n * MINUTE for n in range(1, UPCOMING + 1)]
    assert [(one.status, one.job) for one in view.ticks] == [
        ("unfinished", 7),
        ("overlap", None),
    ]
    assert (view.words, view.type, view.next_at) == ("every minute", "report", T0)


def test_a_detail_has_the_job_as_well() -> None:
    detail = schedule_detail(REPORT, now=T0)

    assert (detail.data, detail.delivery) == ({"n": 1}, "at-most-once")


@pytest.mark.parametrize(
    ("timing", "words"),
    [
        ({"cron": "0 9 * * *", "tz": "Nowhere/Land"}, "every day at 9:00, Land"),
        ({"cron": "61 * * * *", "tz": "UTC"}, "61 * * * *, UTC"),
    ],
)
def test_a_schedule_whose_times_are_not_known_here_is_shown(
    timing: dict[str, Any], words: str
) -> None:
    view = schedule_view(replace(REPORT, every=0, **timing), now=T0)

    assert (view.words, view.upcoming) == (words, [])


def test_coming_times_are_computed_once() -> None:
    """Pages read their lists again every few seconds, however many schedules."""
    schedule = schedule_of("a", draft("a"), cron="7 * * * *", now=T0)
    first = schedule_view(schedule, now=T0)
    before = cron.tick_after.cache_info().misses

    again = schedule_view(schedule, now=T0 + 1_500)

    assert again == first
    assert cron.tick_after.cache_info().misses == before


def test_a_late_schedule_has_the_times_from_now_on() -> None:
    schedule = schedule_of("a", draft("a"), cron="7 * * * *", now=T0)
    assert schedule.due_at is not None

    view = schedule_view(schedule, now=T0 + 24 * HOUR)

    assert view.next_at == schedule.due_at
    assert view.upcoming[0] == schedule.due_at + 24 * HOUR
