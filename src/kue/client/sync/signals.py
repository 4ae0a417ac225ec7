"""Stopping a worker that runs on the portal, by a signal to the main thread."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kue.worker.signals import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """
    Call *stop* on SIGINT and SIGTERM.  Outside the main thread nothing is done.

    After the second signal they belong to whoever had them before, so that a third one
    ends the process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    received: list[int] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            give_back()
        stop()

    def give_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        give_back()
