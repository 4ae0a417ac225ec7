"""Schedules that begin near the end of the calendar."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from kue.model.cron import tick_after
from kue.model.draft import draft
from kue.model.schedule import Schedule
from kue.model.schedule_options import schedule_of


def test_a_tick_beyond_the_times_that_can_be_stored_is_none() -> None:
    start = datetime(9987, 2, 1, tzinfo=UTC)

    schedule = schedule_of(
        "far", draft("a"), cron="0 0 1 1 *", start=start, now=1_000_000
    )

    assert schedule.due_at is None
    stored = msgspec.json.encode(schedule)
    assert msgspec.json.decode(stored, type=Schedule) == schedule


@pytest.mark.parametrize("tz", ["UTC", "Europe/Berlin"])
def test_there_is_no_tick_after_the_last_year(tz: str) -> None:
    leap_day = int(datetime(9996, 2, 29, 12, tzinfo=UTC).timestamp()) * 1000

    assert tick_after("0 0 29 2 *", tz, leap_day) is None
