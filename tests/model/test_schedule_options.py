"""Options of a schedule: what is refused, and what a changed schedule keeps."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from kue.model.draft import draft
from kue.model.errors import BadPayload
from kue.model.job import MAX_TAGS
from kue.model.schedule import Schedule, Tick
from kue.model.schedule_options import (
    MAX_SCHEDULE_DATA,
    MIN_EVERY_MS,
    schedule_of,
)
from tests.support.jobs import DAY, HOUR, MINUTE, SECOND, T0
from tests.support.schedules import moment

DRAFT = draft("report")
TICKS = (Tick(T0 - HOUR, T0 - HOUR, job=7),)


def given(
    name: str = "s", *, now: int = T0, stored: Schedule | None = None, **options: Any
) -> Schedule:
    return schedule_of(name, DRAFT, now=now, stored=stored, **options)


# -- refused -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "a schedule needs one of every, cron and at"),
        (
            {"every": "1h", "cron": "@daily"},
            "a schedule needs one of every, cron and at",
        ),
        ({"every": "99ms"}, "every must be at least 100 ms, not 99ms"),
        ({"every": 0}, "every must be at least 100 ms, not 0"),
        (
            {"every": "1m", "jitter": "1m"},
            "jitter must be shorter than the interval, every",
        ),
        ({"every": "1m", "jitter": -1}, "jitter must not be negative"),
        (
            {"every": "1m", "start": moment(T0), "end": moment(T0 - 1)},
            "end must not be before start",
        ),
        (
            {"at": moment(T0), "start": moment(T0)},
            "start goes with every or cron, not with at",
        ),
        (
            {"at": moment(T0), "end": moment(T0)},
            "end goes with every or cron, not with at",
        ),
        (
            {"every": "1m", "missed": "twice"},
            "missed is one of 'skip', 'once', 'all', not 'twice'",
        ),
        (
            {"every": "1m", "overlap": "queue"},
            "overlap is one of 'allow', 'skip', 'queue-one', not 'queue'",
        ),
        ({"every": "1m", "tz": "Mars"}, "time zone 'Mars' is not known here"),
        ({"cron": "1 2 3"}, "cron expression '1 2 3' cannot be read"),
        ({"at": datetime(2027, 1, 1)}, "at"),  # noqa: DTZ001 - is refused for that
        ({"every": "soon"}, "every"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        given(**options)

    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "schedule name must have 1 to 200 bytes"),
        ("x" * 201, "schedule name must have 1 to 200 bytes"),
        ("x" * 195, "tag of the schedule must have 1 to 200 bytes"),
    ],
)
def test_a_name_that_is_too_long_or_empty_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        given(name, every="1m")


@pytest.mark.parametrize(
    "options",
    [{"at": moment(T0)}, {"after": [1]}, {"parent": 1}],
)
def test_a_job_of_a_schedule_has_no_time_or_parents(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"leave out at, after, parent and address_id"):
        schedule_of("s", draft("report", **options), now=T0, every="1m")


def test_a_job_of_a_schedule_is_retried_for_a_time_and_not_until_a_moment() -> None:
    schedule = schedule_of("s", draft("r", retry_until="2h"), now=T0, every="1d")
    assert schedule.draft.spec.retry_for == 2 * HOUR

    with pytest.raises(ValueError, match=r"is a duration, not a moment"):
        schedule_of("s", draft("r", retry_until=moment(T0)), now=T0, every="1d")


def test_a_job_of_a_schedule_has_room_for_one_more_tag() -> None:
    tags = [f"t{number}" for number in range(MAX_TAGS)]
    schedule_of("s", draft("report", tags=tags[:-1]), now=T0, every="1m")

    with pytest.raises(ValueError, match=rf"at most {MAX_TAGS - 1} tags; one is added"):
        schedule_of("s", draft("report", tags=tags), now=T0, every="1m")


def test_the_data_of_a_schedule_is_small() -> None:
    schedule_of("s", draft("report", "x" * (MAX_SCHEDULE_DATA - 2)), now=T0, every="1m")

    with pytest.raises(BadPayload, match=r"data: is 16,385 bytes of JSON"):
        schedule_of(
            "s", draft("report", "x" * (MAX_SCHEDULE_DATA - 1)), now=T0, every="1m"
        )


# -- when it is first due ----------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "due_at"),
    [
        ({"every": "1m"}, T0 + MINUTE),
        ({"every": MIN_EVERY_MS / 1000}, T0 + MIN_EVERY_MS),
        ({"every": "1m", "start": moment(T0 + DAY)}, T0 + DAY),
        # In step with a start in the past.
        ({"every": "1m", "start": moment(T0 - 5 * SECOND)}, T0 + 55 * SECOND),
        ({"every": "1h", "end": moment(T0 + MINUTE)}, None),
        ({"cron": "30 8 * * *"}, T0 + 30 * MINUTE),
        ({"cron": "30 8 * * *", "start": moment(T0 + HOUR)}, T0 + 30 * MINUTE + DAY),
        ({"cron": "30 9 * * *", "tz": "Europe/Berlin"}, T0 + 30 * MINUTE),
        ({"at": moment(T0 + HOUR)}, T0 + HOUR),
        ({"at": moment(T0 - HOUR)}, T0 - HOUR),
    ],
)
def test_a_new_schedule_is_due_at_its_first_tick(
    options: dict[str, Any], due_at: int | None
) -> None:
    assert given(**options).due_at == due_at


def test_the_defaults_make_up_once_and_allow_overlap() -> None:
    schedule = given(every="1m")

    assert (schedule.missed, schedule.overlap) == ("once", "allow")
    assert (schedule.tz, schedule.jitter, schedule.paused) == ("UTC", 0, False)


def test_an_alias_is_stored_as_the_expression() -> None:
    assert given(cron="@hourly").cron == "0 * * * *"


# -- changed -----------------------------------------------------------------------

TIMINGS: list[dict[str, Any]] = [
    {"every": "1h"},
    {"every": "1h", "start": moment(T0 - DAY)},
    {"cron": "30 8 * * *", "tz": "Europe/Berlin"},
    {"cron": "@daily", "end": moment(T0 + 9 * DAY)},
    {"at": moment(T0 + HOUR)},
]


@pytest.mark.parametrize("timing", TIMINGS)
def test_a_schedule_with_the_same_times_keeps_its_place(timing: dict[str, Any]) -> None:
    """Also if it is overdue: what it missed is not forgotten by a deployment."""
    stored = replace(given(**timing), ticks=TICKS, paused=True)

    again = given(now=T0 + 5 * DAY, stored=stored, **timing)
    assert again == stored

    other = given(
        now=T0 + 5 * DAY, stored=stored, missed="all", overlap="skip", **timing
    )
    assert (other.due_at, other.ticks, other.paused) == (stored.due_at, TICKS, True)
    assert (other.missed, other.overlap) == ("all", "skip")


@pytest.mark.parametrize(
    ("timing", "due_at"),
    [
        ({"every": "2h"}, T0 + DAY + 2 * HOUR),
        ({"every": "1h", "start": moment(T0 + 2 * DAY)}, T0 + 2 * DAY),
        ({"cron": "0 * * * *"}, T0 + DAY + HOUR),
        ({"at": moment(T0 + 3 * DAY)}, T0 + 3 * DAY),
        # Of the same time as the first tick that the interval had.
        ({"at": moment(T0 + HOUR)}, T0 + HOUR),
    ],
)
def test_a_schedule_with_other_times_begins_anew(
    timing: dict[str, Any], due_at: int
) -> None:
    stored = replace(given(every="1h"), ticks=TICKS, paused=True)

    changed = given(now=T0 + DAY, stored=stored, **timing)

    assert (changed.due_at, changed.ticks, changed.paused) == (due_at, TICKS, True)


def test_another_time_zone_is_another_time() -> None:
    stored = given(cron="30 9 * * *")

    changed = given(stored=stored, cron="30 9 * * *", tz="Europe/Berlin")

    assert (stored.due_at, changed.due_at) == (T0 + 90 * MINUTE, T0 + 30 * MINUTE)


def test_a_schedule_says_which_module_declares_it() -> None:
    assert given(every="1m", declared_by="shop.tasks").declared_by == "shop.tasks"
    assert given(every="1m").declared_by == ""
