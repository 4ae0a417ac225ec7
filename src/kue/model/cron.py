"""
Cron expressions: when they are due, in a time zone.

Daylight saving time follows Debian's cron.  A time of day that clocks skip is due as
soon as they have gone forward; one that comes twice is due the first time only.
Expressions with ``*`` as minute or hour, or with seconds, are due whenever a clock
shows them, so "every hour" is each hour that passes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
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
#: Clocks are set back by no more than this.
_MAX_SET_BACK = timedelta(hours=3)
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
    try:
        if len(expression) > MAX_TEXT:
            raise CronSimError("Too long")
        first = tick_after(expression, tz, now)
    except CronSimError as exc:
        raise ValueError(
            f"cron expression {text[:MAX_TEXT]!r} cannot be read ({str(exc).lower()}); "
            "write minute, hour, day of month, month and day of week, "
            'such as "0 9 * * mon-fri"'
        ) from None
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


def tick_after(expression: str, tz: str, moment: int) -> int | None:
    """Return the first time after *moment* when it is due; None if there is none."""
    since = datetime.fromtimestamp(moment // 1000, zone_of(tz))
    # While clocks show an hour for the second time, the next one is in the past.
    return next((at for at in _ticks(expression, since) if at > moment), None)


def tick_until(expression: str, tz: str, moment: int) -> int | None:
    """Return the last time up to *moment* when it was due."""
    till = datetime.fromtimestamp(moment // 1000, UTC) + _MAX_SET_BACK
    ticks = _ticks(expression, till.astimezone(zone_of(tz)), reverse=True)
    return next((at for at in ticks if at <= moment), None)


def _ticks(expression: str, start: datetime, *, reverse: bool = False) -> Iterator[int]:
    utc = start.astimezone(UTC) if str(start.tzinfo) == "UTC" else start
    for tick in CronSim(expression, utc, reverse=reverse):
        yield int(tick.timestamp()) * 1000


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
    text = CronSim(expression, datetime.now(UTC)).explain()
    return text[0].lower() + text[1:]
