"""Hours and days in which jobs may run, by the clocks of a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kue.model.duration import epoch_ms
from kue.model.time_window import DAY_MINUTES, DAYS, TimeWindow

BERLIN = "Europe/Berlin"


def at(text: str) -> int:
    """Return a moment, given as ISO 8601, in ms."""
    return epoch_ms(datetime.fromisoformat(text))


def berlin(times: str, days: str = "mon-sun") -> TimeWindow:
    return TimeWindow.parse(times, tz=BERLIN, days=days)


def next_opening(window: TimeWindow, now: str) -> str:
    return window.local(window.opens_at(at(now))).isoformat(timespec="minutes")


# -- ordinary days -------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "opening"),
    [
        ("2026-11-18T08:59:59+01:00", "2026-11-18T09:00+01:00"),
        ("2026-11-18T20:00:00+01:00", "2026-11-19T09:00+01:00"),
        ("2026-11-18T23:30:00+01:00", "2026-11-19T09:00+01:00"),
        # It is past midnight there, but not yet in UTC.
        ("2026-11-18T23:30:00Z", "2026-11-19T09:00+01:00"),
    ],
)
def test_a_closed_window_opens_at_its_next_opening(now: str, opening: str) -> None:
    window = berlin("9:00-20:00")

    assert not window.is_open(at(now))
    assert next_opening(window, now) == opening


@pytest.mark.parametrize("now", ["09:00:00", "12:00:00", "19:59:59"])
def test_an_open_window_opens_now(now: str) -> None:
    moment = at(f"2026-11-18T{now}+01:00")

    assert berlin("9:00-20:00").is_open(moment)
    assert berlin("9:00-20:00").opens_at(moment) == moment


def test_several_spans_have_a_break_between_them() -> None:
    window = berlin("13:00 - 18:00, 9:00-12:00")

    assert window.is_open(at("2026-11-18T11:59+01:00"))
    assert next_opening(window, "2026-11-18T12:00+01:00") == "2026-11-18T13:00+01:00"
    assert next_opening(window, "2026-11-18T18:00+01:00") == "2026-11-19T09:00+01:00"


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_opens() -> None:
    window = berlin("22:00-6:00", "mon-fri")

    # Saturday morning belongs to Friday, Monday morning to Sunday.
    assert window.is_open(at("2026-11-21T05:59+01:00"))
    assert next_opening(window, "2026-11-21T06:00+01:00") == "2026-11-23T22:00+01:00"
    assert next_opening(window, "2026-11-23T01:00+01:00") == "2026-11-23T22:00+01:00"


def test_a_day_may_be_open_all_day() -> None:
    window = berlin("0:00-24:00", "sat, SUN")

    assert next_opening(window, "2026-11-18T12:00+01:00") == "2026-11-21T00:00+01:00"
    assert window.is_open(at("2026-11-22T23:59+01:00"))
    assert not window.is_open(at("2026-11-23T00:00+01:00"))


def test_days_may_go_over_the_weekend() -> None:
    assert berlin("9:00-10:00", "fri-mon").days == {4, 5, 6, 0}
    assert berlin("9:00-10:00", "wed").days == {2}


# -- when clocks change --------------------------------------------------------


def test_an_opening_that_does_not_exist_is_the_first_moment_after_it() -> None:
    """On 29 March 2026 clocks in Berlin go from 2:00 to 3:00."""
    window = berlin("2:30-5:00")

    assert next_opening(window, "2026-03-29T01:59+01:00") == "2026-03-29T03:00+02:00"


def test_a_closing_that_does_not_exist_is_the_first_moment_after_it() -> None:
    window = berlin("1:00-2:30")

    assert window.is_open(at("2026-03-29T01:59:59+01:00"))
    assert not window.is_open(at("2026-03-29T03:00+02:00"))


def test_a_window_that_does_not_exist_at_all_opens_the_next_time() -> None:
    window = berlin("2:10-2:50", "sun")

    assert next_opening(window, "2026-03-29T00:00+01:00") == "2026-04-05T02:10+02:00"


def test_a_time_that_exists_twice_is_the_first() -> None:
    """On 25 October 2026 clocks in Berlin go from 3:00 back to 2:00."""
    opening, closing = berlin("2:30-4:00"), berlin("1:00-2:30")

    assert next_opening(opening, "2026-10-25T01:00+02:00") == "2026-10-25T02:30+02:00"
    assert opening.is_open(at("2026-10-25T02:15+01:00"))
    assert not closing.is_open(at("2026-10-25T02:15+01:00"))


def test_an_opening_after_the_change_is_by_the_new_clocks() -> None:
    window = berlin("9:00-20:00")

    assert next_opening(window, "2026-03-28T21:00+01:00") == "2026-03-29T09:00+02:00"
    assert next_opening(window, "2026-10-24T21:00+02:00") == "2026-10-25T09:00+01:00"


def test_a_day_that_an_island_skipped_is_left_out() -> None:
    """Samoa had no 30 December 2011, a Friday."""
    window = TimeWindow.parse("9:00-10:00", tz="Pacific/Apia", days="fri")

    opening = next_opening(window, "2011-12-29T12:00-10:00")

    assert opening == "2012-01-06T09:00+14:00"


# -- any window ----------------------------------------------------------------

minutes = st.integers(0, DAY_MINUTES - 1)
spans = st.tuples(minutes, minutes).filter(lambda span: span[0] != span[1])
times = st.lists(spans, min_size=1, max_size=3)
days = st.lists(st.sampled_from(DAYS), min_size=1, max_size=7)
moments = st.datetimes(datetime(2025, 1, 1), datetime(2028, 1, 1)).map(  # noqa: DTZ001 - made aware here
    lambda moment: epoch_ms(moment.replace(tzinfo=UTC))
)
zones = st.sampled_from(
    [BERLIN, "UTC", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]
)


def clock(minute: int) -> str:
    return f"{minute // 60}:{minute % 60:02}"


def written(spans: list[tuple[int, int]]) -> str:
    return ", ".join(f"{clock(opens)}-{clock(closes)}" for opens, closes in spans)


@given(times, days, zones, moments, st.floats(0, 1, exclude_max=True))
def test_it_is_open_when_it_opens_and_closed_until_then(
    spans: list[tuple[int, int]], days: list[str], tz: str, now: int, share: float
) -> None:
    window = TimeWindow.parse(written(spans), tz=tz, days=",".join(days))

    opens_at = window.opens_at(now)

    assert window.is_open(opens_at)
    assert window.is_open(now) == (opens_at == now)
    if opens_at > now:
        assert not window.is_open(now + int(share * (opens_at - now)))
        assert not window.is_open(opens_at - 1)


@given(times, days, moments)
def test_without_a_change_of_clocks_it_is_open_at_the_times_written(
    spans: list[tuple[int, int]], days: list[str], now: int
) -> None:
    window = TimeWindow.parse(written(spans), tz="UTC", days=",".join(days))
    shown = datetime.fromtimestamp(now / 1000, UTC)
    minute = 60 * shown.hour + shown.minute
    today, yesterday = (
        DAYS[(shown - timedelta(days=ago)).weekday()] in days for ago in (0, 1)
    )

    expected = any(
        (today and opens <= minute < (closes if closes > opens else DAY_MINUTES))
        or (yesterday and closes < opens and minute < closes)
        for opens, closes in spans
    )

    assert window.is_open(now) == expected


# -- what cannot be read -------------------------------------------------------


@pytest.mark.parametrize(
    "times",
    [
        "",
        "9-20",
        "9:00",
        "9:00-25:00",
        "24:00-1:00",
        "9:60-10:00",
        "9:00-24:01",
        "noon",
    ],
)
def test_times_that_cannot_be_read_are_refused_with_what_to_write(times: str) -> None:
    with pytest.raises(ValueError, match="is not a time window; write hours and min"):
        berlin(times)


def test_the_message_names_the_part_that_cannot_be_read() -> None:
    with pytest.raises(ValueError, match=r"^'13-18' in '9:00-12:00, 13-18' is not"):
        berlin("9:00-12:00, 13-18")


def test_a_window_that_closes_when_it_opens_is_refused() -> None:
    with pytest.raises(ValueError, match="'9:00-9:00' is empty: it closes when it op"):
        berlin("9:00-9:00")


@pytest.mark.parametrize("days", ["", "monday", "mon-", "mon-fri-sun", "1-5"])
def test_days_that_cannot_be_read_are_refused_with_what_to_write(days: str) -> None:
    with pytest.raises(ValueError, match="are not days of the week; write mon-fri"):
        berlin("9:00-10:00", days)


@pytest.mark.parametrize("tz", ["Europe/Berln", "Europe", "", "../etc", "/etc/passwd"])
def test_an_unknown_time_zone_is_refused_with_what_to_write(tz: str) -> None:
    with pytest.raises(ValueError, match=r"is not known here; write a name .* tzdata"):
        TimeWindow.parse("9:00-10:00", tz=tz)
