"""Durations as people write them ("10m", 90, timedelta), as milliseconds."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

Duration = float | str | timedelta

#: The longest duration accepted, a hundred years: scores stay exact far beyond it.
MAX_MS = 100 * 365 * 24 * 3600 * 1000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_NAMES = (
    ("week", _UNITS["w"]),
    ("day", _UNITS["d"]),
    ("hour", _UNITS["h"]),
    ("minute", _UNITS["m"]),
    ("second", _UNITS["s"]),
    ("millisecond", 1),
)
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|[smhdw])\s*", re.ASCII)


def milliseconds(value: Duration, *, field: str = "duration") -> int:
    """
    Return *value* in milliseconds: seconds, a timedelta, or text such as "1h30m".

    Raises:
        ValueError: It is negative, not finite, over a hundred years, or unreadable.
        TypeError: It is none of the three.
    """
    if isinstance(value, timedelta):
        result = value / timedelta(milliseconds=1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        result = value * 1000
    elif isinstance(value, str):
        result = _parse(value, field)
    else:
        raise TypeError(f"{field} must be seconds, a timedelta or text, not {value!r}")
    # An int may be too large for a float; it is finite.
    if isinstance(result, float) and not math.isfinite(result):
        raise ValueError(f"{field} must be finite, not {value!r}")
    if result < 0:
        raise ValueError(
            f"{field} must not be negative, but is {value!r}; "
            "to run a job at once, leave it out or give 0"
        )
    if result > MAX_MS:
        raise ValueError(f"{field} must be at most a hundred years, not {value!r}")
    return round(result)


def optional_ms(value: Duration | None, field: str) -> int:
    """
    Return a limit in milliseconds, 0 for None.

    Raises:
        ValueError, TypeError: As `milliseconds`; a limit given as 0 is a mistake.
    """
    if value is None:
        return 0
    result = milliseconds(value, field=field)
    if result == 0:
        raise ValueError(f"{field} must be more than 0; leave it out for no limit")
    return result


def epoch_ms(value: datetime, *, field: str = "at") -> int:
    """
    Return an aware datetime as Unix time in milliseconds; 0 for anything before 1970.

    Raises:
        ValueError: It has no time zone, so nobody can know which moment it means.
        TypeError: It is not a datetime.
    """
    if not isinstance(value, datetime):
        raise TypeError(f"{field} must be a datetime, not {value!r}")
    if value.tzinfo is None:
        raise ValueError(
            f"{field} needs a datetime with a time zone, but {value!r} has none; "
            "write datetime.now(timezone.utc) or .astimezone()"
        )
    return max(0, (value - _EPOCH) // timedelta(milliseconds=1))


def interval_words(milliseconds: int) -> str:
    """Return an interval as it follows "every": "minute", "90 minutes", "2 weeks"."""
    for name, size in _NAMES:
        count, rest = divmod(milliseconds, size)
        if count and not rest:
            return name if count == 1 else f"{count:,} {name}s"
    raise ValueError(f"an interval is longer than 0 ms, not {milliseconds}")


def words(milliseconds: int) -> str:
    """Return a duration in its two largest units: ``2 h 5 min``."""
    if milliseconds < _UNITS["s"]:
        return f"{milliseconds} ms"
    if milliseconds < 10 * _UNITS["s"]:
        return f"{milliseconds / _UNITS['s']:.1f} s".replace(".0 s", " s")
    for unit, name, part, part_name in (
        (_UNITS["d"], "d", _UNITS["h"], "h"),
        (_UNITS["h"], "h", _UNITS["m"], "min"),
        (_UNITS["m"], "min", _UNITS["s"], "s"),
    ):
        if milliseconds >= unit:
            rest = milliseconds % unit // part
            return f"{milliseconds // unit:,} {name}" + (
                f" {rest} {part_name}" if rest else ""
            )
    return f"{milliseconds // _UNITS['s']} s"


def _parse(text: str, field: str) -> float:
    total, at = 0.0, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            break
        total += float(part[1]) * _UNITS[part[2]]
        at = part.end()
    if not text or at < len(text):
        raise ValueError(
            f"{field} {text!r} cannot be read; write a number with a unit "
            'of ms, s, m, h, d or w, such as "500ms", "10m" or "1h30m"'
        )
    return total
