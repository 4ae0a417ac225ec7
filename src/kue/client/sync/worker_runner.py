"""Running workers from blocking code: run, work, stop."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from kue.aio.loop_thread import refuse_on_a_loop
from kue.client.sync.connection import BlockingCalls
from kue.client.worker_runner import SIGNALS
from kue.worker.worker import GRACE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from kue.model.duration import Duration
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
    before = {number: signal.getsignal(number) for number in SIGNALS}
    received: list[int] = []

    def on_signal(number: int, _: FrameType | None) -> None:
        received.append(number)
        if len(received) > 1:
            restore()
        stop()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in SIGNALS:
        signal.signal(number, on_signal)
    try:
        yield
    finally:
        restore()


class SyncRunMethods(BlockingCalls):
    """Runs jobs of a queue in this process: `RunMethods`, blocking."""

    def run(
        self,
        *,
        grace: Duration = GRACE_SECONDS,
        signals: bool = True,
        types: Iterable[str] | None = None,
        concurrency: int | None = None,
        strict: bool = False,
        burst: bool = False,
        max_jobs: int | None = None,
        name: str | None = None,
        supervised: bool = False,
        on_start: Callable[[Worker], object] | None = None,
    ) -> None:
        """
        Run jobs until stopped: by `stop`, or by SIGINT or SIGTERM with *signals*.

        Signals are handled in the main thread only.  Handlers are those of the queue;
        coroutines among them, and *on_start*, run on the thread of `q.sync`.
        """
        refuse_on_a_loop("await q.run(…)")
        self._connected()
        wanted = None if types is None else tuple(types)
        with stopped_by_signals(self.stop) if signals else nullcontext():
            self.call(
                lambda q: q.run(
                    grace=grace,
                    signals=False,
                    types=wanted,
                    concurrency=concurrency,
                    strict=strict,
                    burst=burst,
                    max_jobs=max_jobs,
                    name=name,
                    supervised=supervised,
                    on_start=on_start,
                )
            )

    @contextmanager
    def work(
        self,
        *,
        grace: Duration = GRACE_SECONDS,
        types: Iterable[str] | None = None,
        concurrency: int | None = None,
        name: str | None = None,
    ) -> Iterator[Worker]:
        """Run jobs during the body of ``with q.sync.work():``, and stop after it."""
        refuse_on_a_loop("async with q.work(…): …")
        connection = self._connected()
        wanted = None if types is None else tuple(types)
        working = connection.queue.work(
            grace=grace, types=wanted, concurrency=concurrency, name=name
        )
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
