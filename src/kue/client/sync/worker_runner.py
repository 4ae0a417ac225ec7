"""Running workers from blocking code: run, work, stop."""

from __future__ import annotations

import signal
import threading
from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, TypedDict, Unpack

from kue.aio.loop_thread import refuse_on_a_loop
from kue.client.sync.connection import BlockingCalls
from kue.client.worker_runner import SIGNALS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from kue.client.worker_runner import RunOptions, WorkOptions
    from kue.worker import Worker


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """
    Call *stop* on SIGINT and SIGTERM.  Outside the main thread nothing is done.

    After the second signal the handlers from before are restored, so that a third one
    ends the process.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers = ExitStack()

    def on_signal(number: int, _: FrameType | None) -> None:
        if received:
            handlers.close()
        received.append(number)
        stop()

    with handlers:
        for number in SIGNALS:
            before = signal.signal(number, on_signal)
            handlers.callback(signal.signal, number, before)
        yield


class SyncRunMethods(BlockingCalls):
    """Runs jobs of a queue in this process: `RunMethods`, blocking."""

    def run(
        self,
        *,
        signals: bool = True,
        types: Iterable[str] | None = None,
        queues: Iterable[str] | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        """
        Run jobs until stopped: by `stop`, or by SIGINT or SIGTERM with *signals*.

        Signals are handled in the main thread only.  Handlers are those of the queue;
        coroutines among them, and *on_start*, run on the thread of `q.sync`.
        """
        refuse_on_a_loop("await q.run(…)")
        self._connected()
        served = _served(types, queues)
        with stopped_by_signals(self.stop) if signals else nullcontext():
            self.call(lambda q: q.run(signals=False, **served, **options))

    @contextmanager
    def work(
        self,
        *,
        types: Iterable[str] | None = None,
        queues: Iterable[str] | None = None,
        **options: Unpack[WorkOptions],
    ) -> Iterator[Worker]:
        """Run jobs during the body of ``with q.sync.work():``, and stop after it."""
        refuse_on_a_loop("async with q.work(…): …")
        connection = self._connected()
        working = connection.queue.work(**_served(types, queues), **options)
        worker = connection.loop.call(working.__aenter__())
        try:
            yield worker
        finally:
            connection.loop.call(working.__aexit__(None, None, None))

    @property
    def working(self) -> frozenset[Worker]:
        """The workers that run jobs for this side of the queue in this process."""
        connection = self._current()
        return frozenset() if connection is None else connection.queue.working

    def stop(self) -> None:
        """
        Let every `run` and `work` of this side claim no more jobs and return.

        Does not wait, and may be called anywhere: in handlers, in signal handlers.
        """
        connection = self._current()
        if connection is not None:
            connection.loop.call_soon(connection.queue.stop)


class _Served(TypedDict):
    types: tuple[str, ...] | None
    queues: tuple[str, ...] | None


def _served(types: Iterable[str] | None, queues: Iterable[str] | None) -> _Served:
    """Read both here: an iterable may belong to this thread."""
    return {
        "types": None if types is None else tuple(types),
        "queues": None if queues is None else tuple(queues),
    }
