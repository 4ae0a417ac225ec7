"""
Cron expressions: when they are due, in a time zone.

Daylight saving time follows Debian's cron.  A time of day that clocks skip is due as
soon as they have gone forward; one that comes twice is due the first time only.
Expressions with ``*`` as minute or hour, or with seconds, are due whenever a clock
shows them, so "every hour" is each hour that passes.
"""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

if TYPE_CHECKING:
    from collections.abc import Iterator

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
#: Longer expressions are not written by people.
MAX_TEXT = 200
#: Results that are kept: each takes about a millisecond, and lists are read again.
KEPT = 4096
#: Clocks are set back by no more than this.
_MAX_SET_BACK = timedelta(hours=3)
_SECOND, _DAY = timedelta(seconds=1), timedelta(days=1)
_DAYS = {
    "*": "day",
    "1-5": "weekday",
    "MON-FRI": "weekday",
    "0": "Sunday",
    "7": "Sunday",
    "SUN": "Sunday",
    "1": "Monday",
    "MON": "Monday",
    "2": "Tuesday",
    "TUE": "Tuesday",
    "3": "Wednesday",
    "WED": "Wednesday",
    "4": "Thursday",
    "THU": "Thursday",
    "5": "Friday",
    "FRI": "Friday",
    "6": "Saturday",
    "SAT": "Saturday",
}


def check_cron(text: str, tz: str, *, now: int) -> str:
    """
    Return a cron expression as it is stored, with aliases such as ``@daily`` replaced.

    Raises:
        ValueError: It cannot be read, or is never due; the message has an example.
    """
    zone_of(tz)
    expression = ALIASES.get(text.strip().lower(), " ".join(text.split()))
    if len(expression) > MAX_TEXT:
        raise _unreadable(expression, "too long")
    first = tick_after(expression, tz, now)
    if first is None:
        raise ValueError(f"cron expression {text!r} is never due: no such day exists")
    return expression


@lru_cache(maxsize=64)
def zone_of(name: str) -> ZoneInfo:
    """
    Return a time zone by its name.

    Raises:
        ValueError: It is not known here.
    """
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError):
        raise ValueError(
            f"time zone {name!r} is not known here; write a name such as "
            '"Europe/Berlin" or "UTC", and install the package tzdata where the system '
            "has no time zones"
        ) from None


@lru_cache(maxsize=KEPT)
def tick_after(expression: str, tz: str, moment: int) -> int | None:
    """Return the first time after *moment* when it is due; None if there is none."""
    zone = zone_of(tz)
    # Where the calendar ends, so do the ticks.
    with suppress(OverflowError):
        if _is_shown(expression):
            return _shown_after(expression, zone, moment)
        since = datetime.fromtimestamp(moment // 1000, zone)
        # While clocks show an hour for the second time, the next one is in the past.
        return next((at for at in _ticks(expression, since) if at > moment), None)
    return None


def tick_until(expression: str, tz: str, moment: int) -> int | None:
    """Return the last time up to *moment* when it was due."""
    till = datetime.fromtimestamp(moment // 1000, UTC) + _MAX_SET_BACK
    ticks = _ticks(expression, till.astimezone(zone_of(tz)), reverse=True)
    last = next((at for at in ticks if at <= moment), None)
    # Going back, CronSim skips some of the day when clocks are set by half an hour.
    while last is not None and (later := tick_after(expression, tz, last)):
        if later > moment:
            break
        last = later
    return last


def _ticks(expression: str, start: datetime, *, reverse: bool = False) -> Iterator[int]:
    utc = start.astimezone(UTC) if str(start.tzinfo) == "UTC" else start
    for tick in _simulated(expression, utc, reverse=reverse):
        yield int(tick.timestamp()) * 1000


def _simulated(expression: str, start: datetime, *, reverse: bool = False) -> CronSim:
    try:
        return CronSim(expression, start, reverse=reverse)
    except CronSimError as exc:
        raise _unreadable(expression, str(exc).lower()) from None


def _unreadable(expression: str, reason: str) -> ValueError:
    return ValueError(
        f"cron expression {expression[:MAX_TEXT]!r} cannot be read ({reason}); "
        "write minute, hour, day of month, month and day of week, "
        'such as "0 9 * * mon-fri"'
    )


def _is_shown(expression: str) -> bool:
    """Return whether it is due whenever a clock shows it, as CronSim decides it."""
    fields = expression.split()
    return len(fields) == 6 or any(field.startswith("*") for field in fields[:2])


def _shown_after(expression: str, zone: ZoneInfo, moment: int) -> int | None:
    """
    Return the first time after *moment* when a clock shows what is due.

    Until clocks are set they run as those of UTC do, which is all that CronSim is asked
    for: it steps by hours, and a clock that is set by half an hour is then out of step.
    """
    since = datetime.fromtimestamp(moment // 1000, UTC)
    offset = _offset(since, zone)
    while local := next(_simulated(expression, since + offset), None):
        tick = local - offset
        change = _first_change(zone, since, tick, offset)
        if change is None:
            return int(tick.timestamp()) * 1000
        since, offset = change - _SECOND, _offset(change, zone)
    return None


def _first_change(
    zone: ZoneInfo, since: datetime, till: datetime, offset: timedelta
) -> datetime | None:
    """Return the first second up to *till* when clocks have another *offset*."""
    while since < till:
        later = min(since + _DAY, till)
        if _offset(later, zone) != offset:
            seconds = range(1, (later - since) // _SECOND + 1)
            is_changed = partial(_is_changed, zone, since, offset)
            at = seconds[bisect_left(seconds, True, key=is_changed)]
            return since + at * _SECOND
        since = later
    return None


def _is_changed(zone: ZoneInfo, since: datetime, offset: timedelta, after: int) -> bool:
    return _offset(since + after * _SECOND, zone) != offset


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


@lru_cache(maxsize=KEPT)
def words_of(expression: str, tz: str) -> str:
    """Return a cron expression in words: "every weekday at 9:00, Berlin"."""
    place = tz.rpartition("/")[2].replace("_", " ")
    return f"{_simple_words(expression) or _explained(expression)}, {place}"


def _simple_words(expression: str) -> str | None:
    minute, hour, *days = expression.upper().split()
    if not (minute.isdigit() and hour.isdigit() and days[:2] == ["*", "*"]):
        return None
    if len(days) != 3 or days[2] not in _DAYS:
        return None
    return f"every {_DAYS[days[2]]} at {int(hour)}:{int(minute):02}"


def _explained(expression: str) -> str:
    text = _simulated(expression, datetime.now(UTC)).explain()
    return text[0].lower() + text[1:]
