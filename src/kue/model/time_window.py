"""
Time windows: the hours, and days of the week, in which something may happen.

Times are those of a clock on the wall in a time zone.  A window over midnight belongs
to the day on which it opens.  When clocks change, an opening or closing time that does
not exist is the first moment after the gap, and one that exists twice is the first.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from kue.model.cron import zone_of
from kue.model.duration import epoch_ms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ALL_DAYS = "mon-sun"
DAY_MINUTES = 24 * 60
#: The next opening is within two weeks: the only one of a week may be skipped when
#: clocks go forward.
_MAX_DAYS = 15
_MINUTE = timedelta(minutes=1)
_SPAN = re.compile(r"(\d{1,2}):([0-5]\d)\s*-\s*(\d{1,2}):([0-5]\d)", re.ASCII)


class _Span(NamedTuple):
    """Minutes since midnight; *closes* may be on the next day."""

    opens: int
    closes: int


class TimeWindow(NamedTuple):
    """One or several spans of a day, on some days of the week, in a time zone."""

    spans: tuple[_Span, ...]
    #: By number, Monday is 0.
    days: frozenset[int]
    zone: ZoneInfo
    #: As it was written, for people.
    text: str

    @classmethod
    def parse(cls, times: str, *, tz: str, days: str = ALL_DAYS) -> TimeWindow:
        """
        Read times such as "9:00-12:00, 13:00-18:00" and days such as "mon-fri".

        Raises:
            ValueError: It cannot be read, or the time zone is unknown.
        """
        spans = tuple(sorted(_span(part.strip(), times) for part in times.split(",")))
        on = "" if days == ALL_DAYS else f"{days} "
        return cls(spans, _days(days), zone_of(tz), f"{on}{times} {tz}")

    def is_open(self, now: int) -> bool:
        """Return whether it is open at *now*, Unix ms."""
        return self.opens_at(now) == now

    def opens_at(self, now: int) -> int:
        """Return *now* if it is open, else when it opens next, Unix ms."""
        today = self.local(now).date()
        return next(
            max(now, opens)
            # The window of yesterday may be open until today.
            for number in range(-1, _MAX_DAYS)
            for opens, closes in _spans_of(self, today + timedelta(days=number))
            if closes > now
        )

    def local(self, at: int) -> datetime:
        """Return a moment, Unix ms, as the clocks of the time zone show it."""
        return datetime.fromtimestamp(at / 1000, self.zone)


@lru_cache(maxsize=256)
def _spans_of(window: TimeWindow, day: date) -> tuple[tuple[int, int], ...]:
    """Return when the window opens and closes on *day*, Unix ms."""
    if day.weekday() not in window.days:
        return ()
    moments = [
        (_moment(day, opens, window.zone), _moment(day, closes, window.zone))
        for opens, closes in window.spans
    ]
    # One between two times that do not exist never opens.
    return tuple((opens, closes) for opens, closes in moments if opens < closes)


def _moment(day: date, minute: int, zone: ZoneInfo) -> int:
    """Return when clocks first show *minute* of *day*, or the next one that exists."""
    # The arithmetic of aware datetimes is that of clocks on the wall.
    shown = datetime.combine(day, time(), zone) + minute * _MINUTE
    while not _exists(shown, zone):
        shown += _MINUTE
    return epoch_ms(shown)


def _exists(shown: datetime, zone: ZoneInfo) -> bool:
    return shown.astimezone(UTC).astimezone(zone) == shown


def _span(part: str, times: str) -> _Span:
    match = _SPAN.fullmatch(part)
    hours = [int(match[1]), int(match[3])] if match else []
    if match is None or hours[0] > 23 or hours[1] > 24:
        raise _unreadable(times, part)
    opens = 60 * hours[0] + int(match[2])
    closes = 60 * hours[1] + int(match[4])
    if closes > DAY_MINUTES:
        raise _unreadable(times, part)
    if opens == closes:
        raise ValueError(
            f"{part!r} is empty: it closes when it opens; "
            "write 0:00-24:00 for the whole day"
        )
    return _Span(opens, closes if closes > opens else closes + DAY_MINUTES)


def _unreadable(times: str, part: str) -> ValueError:
    which = f"{part!r} in {times!r}" if part != times else repr(times)
    return ValueError(
        f"{which} is not a time window; write hours and minutes, such as 9:00-20:00, "
        "22:00-6:00 over midnight, or several: 9:00-12:00, 13:00-18:00"
    )


def _days(text: str) -> frozenset[int]:
    try:
        parts = [part.strip().lower() for part in text.split(",")]
        return frozenset(day for part in parts for day in _range(part))
    except ValueError:
        raise ValueError(
            f"{text!r} are not days of the week; write mon-fri, or sat,sun: "
            f"the days are {', '.join(DAYS)}"
        ) from None


def _range(part: str) -> Iterator[int]:
    first, *last = (DAYS.index(name.strip()) for name in part.split("-", 1))
    length = (last[0] - first) % len(DAYS) if last else 0
    return ((first + number) % len(DAYS) for number in range(length + 1))
