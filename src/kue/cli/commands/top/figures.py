"""Figures in little room: numbers, durations and trends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.cli.output.listing import NONE

if TYPE_CHECKING:
    from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"
_UNITS = ("k", "M", "G", "T")
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000


def short(number: float, width: int = 6) -> str:
    """Return a number in up to *width* characters: ``9,999``, ``12.3k``, ``4M``."""
    whole = round(number)
    if number and not whole:
        return "<1"
    if not whole:
        return NONE
    if len(text := f"{whole:,}") <= width:
        return text
    for unit in _UNITS:
        number /= 1000
        if len(text := f"{number:.1f}{unit}") <= width and number < 1000:
            return text
        if len(text := f"{number:.0f}{unit}") <= width and number < 1000:
            return text
    return ">" + "9" * (width - 1)


def span(milliseconds: int) -> str:
    """Return a duration in up to six characters: ``250ms``, ``4m30s``, ``3d04h``."""
    if milliseconds < _SECOND:
        return f"{milliseconds}ms"
    for unit, name, part, part_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "m"),
        (_MINUTE, "m", _SECOND, "s"),
    ):
        if milliseconds >= 100 * unit:
            return f"{milliseconds // unit}{name}"
        if milliseconds >= unit:
            rest = milliseconds % unit // part
            return f"{milliseconds // unit}{name}{rest:02}{part_name}"
    return f"{milliseconds // _SECOND}s"


def trend(numbers: Sequence[float]) -> str:
    """Return a bar for each number; the lowest one is 0."""
    most = max(numbers, default=0)
    steps = len(_BARS) - 1
    return "".join(
        _BARS[max(1, round(number / most * steps)) if number else 0]
        for number in numbers
    )
