"""
Logging of the supervisor and its children: one handler, two formats, on stderr.

A record is one line.  In text, more lines of a message and tracebacks follow it; in
JSON they are part of it.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import sys
import threading
import time
from logging.handlers import QueueHandler, QueueListener
from typing import TYPE_CHECKING, Any

import msgspec

from kue.model.credentials import mask_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.supervisor.options import LogFormat

logger = logging.getLogger(__name__)

#: Records that wait for a slow reader of stderr before new ones are dropped.
BACKLOG = 10_000
FLUSH_SECONDS = 1.0
#: What records may carry beside their message, and which is shown.
EXTRAS = ("worker", "job_id", "type", "attempt")


class TextFormatter(logging.Formatter):
    """Time, level, who, logger and message."""

    def __init__(self, who: str) -> None:
        super().__init__()
        self._who = who

    def format(self, record: logging.LogRecord) -> str:
        job = f" job {record.job_id}:" if hasattr(record, "job_id") else ""
        line = (
            f"{_time(record)} {record.levelname:<7} [{self._who}] {record.name}:{job} "
            f"{_indented(mask_credentials(record.getMessage()))}"
        )
        trace = _trace(self, record)
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(logging.Formatter):
    """An object a line: time, level, logger, message, process, and what is known."""

    def __init__(self, who: str) -> None:
        super().__init__()
        self._who = who

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": mask_credentials(record.getMessage()),
            "process": self._who,
        }
        for name in EXTRAS:
            if hasattr(record, name):
                fields[name] = getattr(record, name)
        if trace := _trace(self, record):
            fields["exception"] = trace
        return msgspec.json.encode(fields, enc_hook=str).decode()


def configure(who: str, *, format: LogFormat, level: str) -> logging.Handler:
    """Let the root logger write to stderr, and return the handler that does."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(format, who))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    # Python's own warnings are one line each, too.
    logging.captureWarnings(True)
    return handler


def name_worker(handler: logging.Handler, worker: str) -> None:
    """Say from now on which worker it was."""

    def name(record: logging.LogRecord) -> bool:
        if not hasattr(record, "worker"):
            record.worker = worker
        return True

    handler.addFilter(name)


@contextlib.contextmanager
def unblocked(handler: logging.Handler) -> Iterator[None]:
    """
    Write from a thread, for as long as this lasts.

    Whoever reads stderr may stop reading (a pager, a full disk); the supervisor must
    beat all the same.
    """
    waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(BACKLOG)
    listener = _Patient(waiting, handler)
    root = logging.getLogger()
    root.handlers = [_Dropping(waiting)]
    listener.start()
    try:
        yield
    finally:
        root.handlers = [handler]
        _finish(listener)


class _Dropping(QueueHandler):
    def enqueue(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(queue.Full):
            self.queue.put_nowait(record)

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record


class _Patient(QueueListener):
    queue: queue.Queue[logging.LogRecord | None]

    def enqueue_sentinel(self) -> None:
        # Records may fill the queue; the end waits for its turn.
        self.queue.put(None)


def _finish(listener: QueueListener) -> None:
    # A reader that has stopped reading must not keep us from leaving.
    last = threading.Thread(target=listener.stop, name="kue last words", daemon=True)
    last.start()
    last.join(FLUSH_SECONDS)


def _formatter(format: LogFormat, who: str) -> logging.Formatter:
    return JsonFormatter(who) if format == "json" else TextFormatter(who)


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def _indented(message: str) -> str:
    """Let no second line look like a record: a message may quote anything."""
    return "\n    ".join(message.rstrip().splitlines())


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """Return the traceback: the record's own, or one that came from a child."""
    # As logging does, kept with the record for other formatters.
    if record.exc_info and not record.exc_text:
        record.exc_text = formatter.formatException(record.exc_info)
    trace = str(record.exc_text or getattr(record, "detail", "")).rstrip()
    return mask_credentials(trace)
