"""
Formatting of values: escaped text, JSON, times and durations.

The contents of a job are not trusted: they must not control the terminal or look like
another column.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from kue.model.duration import words as words

if TYPE_CHECKING:
    from datetime import tzinfo

    from kue.model.job import JobTerms
    from kue.model.payload import JSON

#: Control characters, line ends, and characters that reorder or hide text.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_SHORT = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def visible(text: str) -> str:
    """Return *text* on one line, control characters escaped (``\\x1b``)."""
    return _UNSAFE.sub(lambda found: _escape(found[0]), text)


def visible_lines(text: str) -> list[str]:
    """Return the lines of *text*, control characters escaped."""
    return [visible(line.expandtabs(4)) for line in text.splitlines()]


def name_and_queue(job: JobTerms) -> str:
    """Return the task of *job*, and its queue if that has another name."""
    return job.name if job.name == job.queue else f"{job.name} ({job.queue})"


def json_text(value: JSON) -> str:
    """Return *value* as one line of JSON that is safe to show and still JSON."""
    encoded = msgspec.json.encode(value).decode()
    # Outside of strings JSON has none of these, so an escape is always valid.
    return _UNSAFE.sub(lambda found: _json_escape(ord(found[0])), encoded)


def iso(moment: int, zone: tzinfo | None = None) -> str:
    """Return Unix ms as local time, or as that of *zone*, with its offset."""
    try:
        then = (_EPOCH + timedelta(milliseconds=moment)).astimezone(zone)
    except (OverflowError, ValueError):
        return f"{moment} ms"
    return then.isoformat(timespec="seconds")


def since(moment: int, now: int) -> str:
    """Return *moment* relative to *now*: ``5 min ago``, ``in 2 h``."""
    if moment > now:
        return f"in {words(moment - now)}"
    return f"{words(now - moment)} ago"


def both(moment: int, now: int, zone: tzinfo | None = None) -> str:
    """Return *moment* as a time, and relative to *now*."""
    return f"{iso(moment, zone)} ({since(moment, now)})"


def jobs(number: int, what: str = "job") -> str:
    """Return a number with its noun: ``1 job``, ``2,000 jobs``."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _escape(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _json_escape(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
