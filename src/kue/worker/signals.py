"""Signals that stop a worker: once for a graceful shutdown, twice to stop now."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.worker.worker import Worker

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopped_by_signals(worker: Worker) -> Iterator[None]:
    """
    Stop *worker* on SIGINT or SIGTERM.

    The second signal requeues its jobs at once and removes these signal handlers, so
    that a third one ends the process.  Outside the main thread, where Python allows no
    signal handlers, nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if worker.is_stopping:
            _remove_handlers(loop)
        worker.stop()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        _remove_handlers(loop)


def _remove_handlers(loop: asyncio.AbstractEventLoop) -> None:
    for number in SIGNALS:
        loop.remove_signal_handler(number)
