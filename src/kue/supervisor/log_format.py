"""
Log format of the supervisor and its children: text or JSON, on stderr.

A record is one line.  In text, further lines of a message and tracebacks follow it;
in JSON they are part of it.
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

from kue.model.credential_masking import mask_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.supervisor.options import LogFormat

logger = logging.getLogger(__name__)

#: Records that wait for a slow reader of stderr before new ones are dropped.
BACKLOG = 10_000
FLUSH_SECONDS = 1.0
#: Extra fields of records that are shown.
EXTRAS = ("worker", "job_id", "type", "attempt")


class _ProcessFormatter(logging.Formatter):
    """Formats the records of one process."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def _trace(self, record: logging.LogRecord) -> str:
        """Return the traceback: of the record, or one that came from a child."""
        # Cached in the record for other formatters, as logging does.
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        trace = str(record.exc_text or getattr(record, "detail", "")).rstrip()
        return mask_credentials(trace)


class TextFormatter(_ProcessFormatter):
    """Time, level, process, logger and message."""

    def format(self, record: logging.LogRecord) -> str:
        job = f" job {record.job_id}:" if hasattr(record, "job_id") else ""
        lines = mask_credentials(record.getMessage()).rstrip().splitlines()
        # Further lines are indented, so that a quoted one cannot look like a record.
        message = "\n    ".join(lines)
        line = (
            f"{_time(record)} {record.levelname:<7} [{self._process}] "
            f"{record.name}:{job} {message}"
        )
        trace = self._trace(record)
        return f"{line}\n{trace}" if trace else line


class JsonFormatter(_ProcessFormatter):
    """One object per line: time, level, logger, message, process, extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": mask_credentials(record.getMessage()),
            "process": self._process,
        }
        for name in EXTRAS:
            if hasattr(record, name):
                fields[name] = getattr(record, name)
        if trace := self._trace(record):
            fields["exception"] = trace
        return msgspec.json.encode(fields, enc_hook=str).decode()


def configure(process: str, *, format: LogFormat, level: str) -> logging.Handler:
    """Have the root logger write to stderr, and return the handler."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = JsonFormatter if format == "json" else TextFormatter
    handler.setFormatter(formatter(process))
    logging.basicConfig(handlers=[handler], level=level, force=True)
    # Python's own warnings are one line each, too.
    logging.captureWarnings(True)
    return handler


def name_worker(handler: logging.Handler, worker: str) -> None:
    """Add the name of the worker to all further records."""

    def name(record: logging.LogRecord) -> bool:
        if not hasattr(record, "worker"):
            record.worker = worker
        return True

    handler.addFilter(name)


@contextlib.contextmanager
def unblocked(handler: logging.Handler) -> Iterator[None]:
    """
    Write from a thread, for as long as the context lasts.

    The reader of stderr may stop reading (a pager, a full disk); the supervisor must
    send heartbeats all the same.
    """
    waiting: queue.Queue[logging.LogRecord | None] = queue.Queue(BACKLOG)
    listener = _QueueListener(waiting, handler)
    root = logging.getLogger()
    root.handlers = [_DroppingHandler(waiting)]
    listener.start()
    try:
        yield
    finally:
        root.handlers = [handler]
        # A reader that has stopped reading must not keep us from exiting.
        flush = threading.Thread(
            target=listener.stop, name="kue log flush", daemon=True
        )
        flush.start()
        flush.join(FLUSH_SECONDS)


class _DroppingHandler(QueueHandler):
    def enqueue(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(queue.Full):
            self.queue.put_nowait(record)

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return record


class _QueueListener(QueueListener):
    queue: queue.Queue[logging.LogRecord | None]

    def enqueue_sentinel(self) -> None:
        # Records may fill the queue; the sentinel waits until there is room.
        self.queue.put(None)


def _time(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"
