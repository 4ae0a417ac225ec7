"""
Log capture: what a job logs and prints is kept in the job's log.

While a worker runs, a handler on the root logger and a thin layer over ``sys.stdout``
check whether a job runs where they are called; if so the line goes to the job's log
too.  Both pass everything on, and cost next to nothing outside of jobs.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from kue.store.values import MAX_LOG_LINES, MAX_LOG_TEXT
from kue.worker.current_job import CURRENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.worker.active_job import ActiveJob

#: Lines captured per attempt; the log itself keeps the newest of all attempts.
MAX_CAPTURED = MAX_LOG_LINES
ENOUGH = f"… more than {MAX_CAPTURED} lines in one attempt are not kept"


class LogCapture(logging.Handler):
    """
    Copies records that a job's code logs to the job's log.

    In a program that did not set logging up it is the only handler.  Then records of
    jobs are kept from level INFO on, and Python's last resort, which prints warnings
    when there is no handler at all, still gets them.
    """

    is_alone = False

    def emit(self, record: logging.LogRecord) -> None:
        if self.is_alone:
            _last_resort(record)
        active = CURRENT.get()
        # Our own records are about the worker, not the job's code.
        if active is None or record.name.partition(".")[0] == "kue":
            return
        try:
            _keep(active, _text(record), _level(record.levelno))
        except Exception:
            self.handleError(record)


class PrintCapture(io.TextIOBase):
    """Copies what jobs print to ``sys.stdout`` to their logs."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        active = CURRENT.get()
        if active is not None and not _is_logging():
            with contextlib.suppress(Exception):
                _print(active, text)
        return self.stream.write(text)

    def flush(self) -> None:
        self.stream.flush()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


class _Installation:
    """Installed once per process, however many workers run in it."""

    def __init__(self) -> None:
        self._users = 0
        self._handler = LogCapture()
        self._stdout: PrintCapture | None = None
        self._level = logging.WARNING

    @contextmanager
    def captured(self) -> Iterator[None]:
        """Keep what jobs log and print, for as long as the context lasts."""
        self._users += 1
        if self._users == 1:
            self._install()
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._uninstall()

    def _install(self) -> None:
        root = logging.getLogger()
        self._level = root.level
        self._handler.is_alone = not root.handlers
        if self._handler.is_alone:
            root.setLevel(min(root.level, logging.INFO))
        root.addHandler(self._handler)
        sys.stdout = self._stdout = PrintCapture(sys.stdout)

    def _uninstall(self) -> None:
        root = logging.getLogger()
        root.removeHandler(self._handler)
        root.setLevel(self._level)
        # Other code may have put its own layer over ours.
        if self._stdout is not None and sys.stdout is self._stdout:
            sys.stdout = self._stdout.stream


captured = _Installation().captured


def finish(active: ActiveJob) -> None:
    """Keep a line that ``print(…, end="")`` started and nothing completed."""
    if active.partial:
        _keep(active, active.partial, "info")


def _print(active: ActiveJob, text: str) -> None:
    *lines, rest = (active.partial + text).split("\n")
    active.partial = rest[-MAX_LOG_TEXT:]
    for line in lines:
        _keep(active, line, "info")


def _keep(active: ActiveJob, text: str, level: str) -> None:
    active.lines += 1
    if active.lines <= MAX_CAPTURED:
        active.log(text, level=level)
    elif active.lines == MAX_CAPTURED + 1:
        active.log(ENOUGH, level="warning")


def _last_resort(record: logging.LogRecord) -> None:
    last = logging.lastResort
    if last is not None and record.levelno >= last.level:
        last.handle(record)


def _text(record: logging.LogRecord) -> str:
    text = record.getMessage()
    if record.exc_info:
        text += "\n" + logging.Formatter().formatException(record.exc_info)
    return text


def _level(number: int) -> str:
    for level in ("critical", "error", "warning", "info"):
        if number >= getattr(logging, level.upper()):
            return level
    return "debug"


def _is_logging() -> bool:
    """Return whether a log handler writes: the record itself was captured already."""
    return sys._getframe(2).f_globals.get("__name__") == "logging"
