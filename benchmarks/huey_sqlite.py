"""The peer on SQLite: Huey, with its own storage and its own consumer."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from huey import SqliteHuey  # type: ignore[import-untyped]

from benchmarks.delivery import check_count, check_once
from benchmarks.readings import stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Numbers of threads that are tried; the best counts.
THREADS = (1, 2, 4)
#: Longer than any drain; otherwise a consumer that lost jobs would never end.
PATIENCE_SECONDS = 120.0


class HueySqlite:
    """
    A queue in a new file, with one task that does nothing.

    By default Huey waits for the disk at each commit; not *synced*, it never does.
    """

    def __init__(self, path: Path, *, synced: bool) -> None:
        fsync = None if synced else False
        self._huey = SqliteHuey("bench", filename=str(path), fsync=fsync)
        self._ran: list[int] = []
        self._wanted = 0
        self._all_ran = threading.Event()
        self._task = self._huey.task()(self._noop)

    def close(self) -> None:
        self._huey.storage.close()

    def add(self, jobs: int) -> float:
        """Call the task *jobs* times; return how many seconds that took."""
        with stopwatch() as watch:
            for i in range(jobs):
                self._task(i)
        check_count(self._huey.pending_count(), jobs, "Huey's tasks waiting")
        return watch.seconds

    def drain(self, jobs: int, *, threads: int) -> float:
        """Run all *jobs* with a consumer; return the seconds from start to last run."""
        self._wanted = jobs
        consumer = self._huey.create_consumer(workers=threads, periodic=False)
        with _signals_kept(), stopwatch() as watch:
            consumer.start()
            self._all_ran.wait(PATIENCE_SECONDS)
            seconds = watch.lap()
            consumer.stop(graceful=True)
        check_once(range(jobs), self._ran, "Huey")
        check_count(self._huey.pending_count(), 0, "Huey's tasks left")
        return seconds

    def _noop(self, i: int) -> None:
        self._ran.append(i)
        if len(self._ran) == self._wanted:
            self._all_ran.set()


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Restore signal handlers, which a consumer replaces."""
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {name: signal.getsignal(name) for name in names}
    try:
        yield
    finally:
        for name, handler in handlers.items():
            signal.signal(name, handler)
