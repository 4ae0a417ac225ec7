"""Progress and log lines of a job, as values, and the reply to them."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

from kue.model.payload import JSON, MAX_RESULT, decode, encode
from kue.store.reply_errors import check
from kue.store.values import MAX_LOG_TEXT, LogLine, Progress

if TYPE_CHECKING:
    from collections.abc import Generator

    from kue.store.values import Result

LEVELS = ("debug", "info", "warning", "error", "critical")


class ProgressReply:
    """
    A report that is in flight; awaiting it is optional.

    Outside the worker's event loop there is no reply: awaiting returns at once.
    """

    __slots__ = ("_job_id", "_reply", "_wanted")

    def __init__(
        self, job_id: int, wanted: str, reply: asyncio.Future[Result | None] | None
    ) -> None:
        self._job_id = job_id
        #: Ends the sentence "job 7 is active and cannot …".
        self._wanted = wanted
        self._reply = reply

    def __await__(self) -> Generator[Any, None, None]:
        if self._reply is None:
            return
        # Shielded: others may wait for the same reply.
        result = yield from asyncio.shield(self._reply).__await__()
        if result is not None:
            check(self._job_id, result, wanted=self._wanted)


def percent(done: float, total: float = 100) -> int:
    """
    Return *done* of *total* as whole percent, never below 0 nor above 100.

    With a *total* of 0 or less the result is 0.

    Raises:
        ValueError: An argument is infinite or NaN.
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
    """Return the progress of a job; raises `BadPayload` for data that is not JSON."""
    if data is not None:
        # Decoded again: a copy that cannot change under the store, and is plain JSON.
        data = decode(encode(data, field="progress data", limit=MAX_RESULT))
    return Progress(job_id, percent(done, total), data, token)


def line(text: object, *args: object, level: str = "info", attempt: int = 0) -> LogLine:
    """
    Return a line for a job's log; anything that is not a string is shown by `repr`.

    Raises:
        ValueError: There is no such level, or *args* do not fit the text.
    """
    if level not in LEVELS:
        raise ValueError(f"log level {level!r} is unknown; there are {list(LEVELS)}")
    shown = text if isinstance(text, str) else repr(text)
    if args:
        shown = _formatted(shown, args)
    # Lone surrogates (bytes that were not UTF-8) cannot be stored.
    clean = shown[:MAX_LOG_TEXT].encode("utf-8", "backslashreplace").decode()
    return LogLine(clean[:MAX_LOG_TEXT], level, attempt)


def _formatted(text: str, args: tuple[object, ...]) -> str:
    try:
        return text % args
    except (TypeError, ValueError) as exc:
        raise ValueError(
            f"log text {text!r} cannot be formatted with {args!r}: {exc}; "
            'a level is given by name: log(text, level="warning")'
        ) from exc
