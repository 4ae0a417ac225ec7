"""Cron expressions: which are valid, and when they are due in a time zone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.model.cron import (
    ALIASES,
    MAX_TEXT,
    check_cron,
    tick_after,
    tick_until,
    words_of,
)
from tests.support.jobs import DAY, HOUR, SECOND, T0

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
LORD_HOWE, KATHMANDU = "Australia/Lord_Howe", "Asia/Kathmandu"
ZONES = ("UTC", BERLIN, NEW_YORK, LORD_HOWE, KATHMANDU, "Pacific/Apia")


def at(text: str, tz: str = "UTC", *, fold: int = 0) -> int:
    """Return what a clock in *tz* shows as Unix ms; *fold*: for the second time."""
    shown = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(tz), fold=fold)
    return int(shown.timestamp()) * 1000


def ticks(expression: str, tz: str, since: str, count: int) -> list[str]:
    """Return the first ticks since a local time, as clocks there show them."""
    found = itertools.islice(after(expression, tz, at(since, tz) - 1), count)
    zone = ZoneInfo(tz)
    times = [datetime.fromtimestamp(tick / 1000, zone) for tick in found]
    return [f"{time:%m-%d %H:%M %Z}" for time in times]


def after(expression: str, tz: str, moment: int) -> Iterator[int]:
    """Yield all ticks after *moment*, each from the one before."""
    tick = tick_after(expression, tz, moment)
    while tick is not None:
        yield tick
        tick = tick_after(expression, tz, tick)


# -- expressions -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("*/15 * * * *", "*/15 * * * *"),
        ("  0   9 * *\tmon-fri ", "0 9 * * mon-fri"),
        ("0 0 L * *", "0 0 L * *"),
        ("0 9 * * 5L", "0 9 * * 5L"),
        ("0 9 * * mon#1", "0 9 * * mon#1"),
        ("30 0 9 * * *", "30 0 9 * * *"),
        (" @Daily ", "0 0 * * *"),
        *ALIASES.items(),
    ],
)
def test_an_expression_is_stored_with_single_spaces_and_without_aliases(
    given: str, stored: str
) -> None:
    assert check_cron(given, "UTC", now=T0) == stored


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "wrong number of fields"),
        ("@fortnightly", "wrong number of fields"),
        ("* * * *", "wrong number of fields"),
        ("60 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 32 * *", "bad day-of-month"),
        ("0 0 30 2 *", "bad day-of-month"),
        ("* * * jän *", "bad month"),
        ("* * * * 8", "bad day-of-week"),
        ("*/0 * * * *", "bad minute"),
        ("5-1 * * * *", "bad minute"),
        ("0 " * MAX_TEXT, "too long"),
    ],
)
def test_an_expression_that_cannot_be_read_is_refused_with_an_example(
    text: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=r"cannot be read") as caught:
        check_cron(text, "UTC", now=T0)

    assert str(caught.value) == (
        f"cron expression {text.strip()[:MAX_TEXT]!r} cannot be read ({reason}); "
        "write minute, hour, day of month, month and day of week, "
        'such as "0 9 * * mon-fri"'
    )


def test_a_stored_expression_that_cannot_be_read_is_an_error_of_its_value() -> None:
    """Maintenance and views go on with the other schedules."""
    for ask in (tick_after, tick_until):
        with pytest.raises(ValueError, match=r"'61 9 \* \* \*' cannot be read"):
            ask("61 9 * * *", "UTC", T0)
    with pytest.raises(ValueError, match="cannot be read"):
        words_of("61 * * * *", "UTC")


def test_an_expression_that_is_never_due_is_refused() -> None:
    with pytest.raises(ValueError, match=r"never due: no such day exists"):
        # The first of a month is never its fifth Monday.
        check_cron("0 0 */31 * mon#5", "UTC", now=T0)


@pytest.mark.parametrize("name", ["Nowhere/Land", "", "../etc/passwd", "a\0b", "/abs"])
def test_a_time_zone_that_is_not_known_here_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not known here; write a name") as caught:
        check_cron("* * * * *", name, now=T0)

    assert repr(name) in str(caught.value)


@given(st.text(alphabet="*/,-#LW0123456789 monfriMAY@", max_size=20))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    try:
        expression = check_cron(text, "UTC", now=T0)
    except ValueError:
        return
    assert (tick_after(expression, "UTC", T0) or 0) > T0


def test_a_rare_day_is_found_in_the_years_to_come() -> None:
    leap_monday = tick_after("0 0 29 2 *", "UTC", at("2096-03-01"))

    assert leap_monday == at("2104-02-29")


# -- words -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "tz", "words"),
    [
        ("0 9 * * mon-fri", BERLIN, "every weekday at 9:00, Berlin"),
        ("0 9 * * 1-5", BERLIN, "every weekday at 9:00, Berlin"),
        ("5 17 * * *", "UTC", "every day at 17:05, UTC"),
        ("30 6 * * sun", NEW_YORK, "every Sunday at 6:30, New York"),
        ("30 6 * * 7", NEW_YORK, "every Sunday at 6:30, New York"),
        ("*/10 * * * *", "UTC", "every 10th minute of every hour, UTC"),
        ("0 0 1 * *", KATHMANDU, "at 00:00 on the first day of every month, Kathmandu"),
    ],
)
def test_an_expression_is_described_in_words(
    expression: str, tz: str, words: str
) -> None:
    assert words_of(expression, tz) == words


@given(st.sampled_from(["1,2 3 4 5 6", "* * * * * *", "0 0 L * *", "0 9 * * 5L"]))
def test_every_expression_has_words(expression: str) -> None:
    assert words_of(expression, "UTC").endswith(", UTC")


# -- daylight saving time ----------------------------------------------------------


def test_a_time_of_day_is_due_by_local_clocks() -> None:
    found = ticks("0 9 * * *", BERLIN, "2026-03-28T00:00", 3)

    assert found == ["03-28 09:00 CET", "03-29 09:00 CEST", "03-30 09:00 CEST"]


@pytest.mark.parametrize(
    ("tz", "day", "expected"),
    [
        (BERLIN, "2026-03-29", ["03-29 03:00 CEST", "03-30 02:30 CEST"]),
        (NEW_YORK, "2026-03-08", ["03-08 03:00 EDT", "03-09 02:30 EDT"]),
    ],
)
def test_a_time_that_clocks_skip_is_due_right_after_the_gap(
    tz: str, day: str, expected: list[str]
) -> None:
    assert ticks("30 2 * * *", tz, f"{day}T00:00", 2) == expected


def test_half_an_hour_that_clocks_skip_is_made_up_for_right_after() -> None:
    found = ticks("15 2 * * *", LORD_HOWE, "2026-10-04T00:00", 2)

    assert found == ["10-04 02:30 +11", "10-05 02:15 +11"]


def test_several_times_that_clocks_skip_are_due_once() -> None:
    found = ticks("0,30 2,3 * * *", BERLIN, "2026-03-29T00:00", 3)

    assert found == ["03-29 03:00 CEST", "03-29 03:30 CEST", "03-30 02:00 CEST"]


@pytest.mark.parametrize(
    ("tz", "expression", "day", "expected"),
    [
        (BERLIN, "30 2 * * *", "2026-10-25", ["10-25 02:30 CEST", "10-26 02:30 CET"]),
        (NEW_YORK, "30 1 * * *", "2026-11-01", ["11-01 01:30 EDT", "11-02 01:30 EST"]),
    ],
)
def test_a_time_that_clocks_show_twice_is_due_the_first_time(
    tz: str, expression: str, day: str, expected: list[str]
) -> None:
    assert ticks(expression, tz, f"{day}T00:00", 2) == expected


@pytest.mark.parametrize("tz", [BERLIN, NEW_YORK])
@pytest.mark.parametrize(
    "day", ["2026-03-08", "2026-03-29", "2026-10-25", "2026-11-01"]
)
@pytest.mark.parametrize("expression", ["0 * * * *", "@hourly", "0 */1 * * *"])
def test_every_hour_is_each_hour_that_passes(
    tz: str, day: str, expression: str
) -> None:
    start = at(f"{day}T00:00", tz)
    expression = check_cron(expression, tz, now=start)

    found = list(itertools.islice(after(expression, tz, start - 1), 30))

    assert found == [start + hour * HOUR for hour in range(30)]


@pytest.mark.parametrize("day", ["2026-04-05", "2026-10-04"])
def test_clocks_that_are_set_by_half_an_hour_skip_no_other_time(day: str) -> None:
    found = list(itertools.islice(after("*/15 23 * * *", LORD_HOWE, at(day) - DAY), 8))

    shown = [datetime.fromtimestamp(one / 1000, ZoneInfo(LORD_HOWE)) for one in found]
    assert [f"{time:%H:%M}" for time in shown] == [
        "23:00",
        "23:15",
        "23:30",
        "23:45",
    ] * 2
    for tick in found:
        assert tick_until("*/15 23 * * *", LORD_HOWE, tick + 1) == tick


def test_while_an_hour_comes_for_the_second_time_its_ticks_are_over() -> None:
    second = at("2026-10-25T02:15", BERLIN, fold=1)

    assert tick_after("30 2 * * *", BERLIN, second) == at("2026-10-26T02:30", BERLIN)
    assert tick_until("30 2 * * *", BERLIN, second) == at("2026-10-25T02:30", BERLIN)


# -- properties --------------------------------------------------------------------

#: Days when clocks are set, in some zone.
DST_DAYS = (
    *("2026-03-08", "2026-03-29", "2026-04-05", "2026-10-04", "2026-10-25"),
    *("2026-11-01", "2011-12-29"),
)
minutes = st.sampled_from(["*", "0", "30", "*/15", "15,45", "0-59/20", "59"])
hours = st.sampled_from(["*", "*/2", "0", "1", "2", "3", "1-3", "0,2", "23", "*/5"])
days = st.sampled_from(["* * *"] * 4 + ["1 * *", "L * *", "* 10 *", "* * mon-fri"])
seconds = st.sampled_from(["", "", "", "", "0 ", "30 "])
expressions = st.builds(
    lambda second, minute, hour, day: f"{second}{minute} {hour} {day}",
    seconds,
    minutes,
    hours,
    days,
)
zones = st.sampled_from(ZONES)
near_dst = st.builds(
    lambda day, ms: at(day) + ms,
    st.sampled_from(DST_DAYS),
    st.integers(-DAY, 2 * DAY),
)
moments = near_dst | st.integers(T0 - 400 * DAY, T0 + 400 * DAY)


@given(expressions, zones, moments)
def test_the_next_tick_is_later(expression: str, tz: str, moment: int) -> None:
    tick = tick_after(expression, tz, moment)

    assert tick is not None
    assert tick > moment
    assert tick % SECOND == 0


@given(expressions, zones, moments)
def test_the_last_tick_is_not_later(expression: str, tz: str, moment: int) -> None:
    tick = tick_until(expression, tz, moment)

    assert tick is not None
    assert tick <= moment


@given(expressions, zones, moments)
def test_there_is_no_tick_between_the_last_and_the_next(
    expression: str, tz: str, moment: int
) -> None:
    last = tick_until(expression, tz, moment)

    assert last is not None
    assert tick_after(expression, tz, last) == tick_after(expression, tz, moment)


@given(expressions, zones, near_dst, st.integers(0, 3 * HOUR))
def test_the_last_tick_is_that_of_going_forward(
    expression: str, tz: str, start: int, span: int
) -> None:
    passed = list(
        itertools.takewhile(
            lambda tick: tick <= start + span, after(expression, tz, start)
        )
    )

    if passed:
        assert tick_until(expression, tz, start + span) == passed[-1]
    else:
        assert (tick_until(expression, tz, start + span) or 0) <= start


@given(expressions, zones, near_dst)
def test_ticks_are_the_same_wherever_one_starts(
    expression: str, tz: str, moment: int
) -> None:
    """A restart between two ticks must neither lose nor repeat one."""
    first = tick_after(expression, tz, moment)
    assert first is not None

    halfway = (moment + first) // 2

    assert tick_after(expression, tz, halfway) == first
