"""Signs of life a job gives: how far it is, and what it says.  Values only."""

from __future__ import annotations

import math

from kue.model.payload import JSON, MAX_RESULT, decode, encode
from kue.store.values import MAX_LOG_TEXT, LogLine, Progress

LEVELS = ("debug", "info", "warning", "error", "critical")


def percent(done: float, total: float = 100) -> int:
    """
    Return *done* of *total* as whole percent, never below 0 nor above 100.

    Of nothing, nothing is done: with a *total* of 0 or less the answer is 0.

    Raises:
        ValueError: A number is infinite or not a number.
    """
    for value in (done, total):
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"progress must be finite, not {value!r}")
    if total <= 0:
        return 0
    return max(0, min(100, int(done * 100 // total)))


def progress(
    job_id: int, done: float, total: float, data: JSON, *, token: str = ""
) -> Progress:
    """Return how far job *job_id* is; raises `BadPayload` for data that is not JSON."""
    if data is not None:
        # Read back: what the store gets cannot change under it, and is plain JSON.
        data = decode(encode(data, field="progress data", limit=MAX_RESULT))
    return Progress(job_id, percent(done, total), data, token)


def line(text: object, level: str = "info", *, attempt: int = 0) -> LogLine:
    """
    Return a line for a job's log; whatever is not text is shown as `repr` shows it.

    Raises:
        ValueError: There is no such level.
    """
    if level not in LEVELS:
        raise ValueError(f"log level {level!r} is unknown; there are {list(LEVELS)}")
    shown = text if isinstance(text, str) else repr(text)
    # Lone surrogates (bytes that were no UTF-8) cannot be stored.
    clean = shown[:MAX_LOG_TEXT].encode("utf-8", "backslashreplace").decode()
    return LogLine(clean[:MAX_LOG_TEXT], level, attempt)
