"""Engine of a SQLite store: its threads, started when first needed, and waiters."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

from kue.aio.loop_calls import hand_over
from kue.model.clock import MovableClock
from kue.model.errors import StoreRefused
from kue.store.sqlite.change_watcher import ChangeWatcher
from kue.store.sqlite.db_threads import ReaderThread, ThreadCall, WriterThread
from kue.store.sqlite.verbs.limits import EVERY
from kue.store.sqlite.verbs.watch import Subscribers

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from kue.model.clock import TimeSource
    from kue.store.sqlite.file_url import FileLocation
    from kue.store.sqlite.verb_transaction import Transaction

T = TypeVar("T")


class Waiter:
    """A caller that sleeps until there may be work of some types."""

    def __init__(self, types: Iterable[str]) -> None:
        self.types = frozenset(types)
        #: Types that have work for sure; the others must be checked again.
        self.ready: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def concerns(self, types: set[str]) -> frozenset[str]:
        """Return those of its types that are among *types*."""
        return self.types if EVERY in types else self.types & types

    def wake(self, ready: Iterable[str]) -> None:
        """Wake the caller, from any thread."""
        hand_over(self._loop, self._wake, ready)

    def _wake(self, ready: Iterable[str]) -> None:
        self.ready.update(ready)
        self._woken.set()

    async def sleep(self, seconds: float) -> None:
        """Sleep until woken, at most for *seconds*."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()


class Waiters:
    """All waiters of this process, on any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: set[Waiter] = set()

    @contextlib.contextmanager
    def enter(self, types: Iterable[str]) -> Iterator[Waiter]:
        waiter = Waiter(types)
        with self._lock:
            self._waiters.add(waiter)
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters.discard(waiter)

    def notify(self, ready: set[str], later: set[str]) -> None:
        """Wake those that wait for *ready* types, or must check *later* ones again."""
        with self._lock:
            waiters = list(self._waiters)
        for waiter in waiters:
            concerned = waiter.concerns(ready)
            if concerned or waiter.concerns(later):
                waiter.wake(concerned)


class DatabaseThreads:
    """
    Runs calls on the store's threads.

    A store in memory has one connection and therefore one thread for writes and reads.
    """

    def __init__(
        self, location: FileLocation, clock: TimeSource, budget: float
    ) -> None:
        self.waiters = Waiters()
        self.subscribers = Subscribers()
        self.location = location
        self.clock = clock
        self.budget = budget
        self._lock = threading.Lock()
        self._writer: WriterThread | None = None
        self._reader: ReaderThread | None = None
        self._watcher: ChangeWatcher | None = None
        self._pid = 0
        if isinstance(clock, MovableClock):
            clock.on_move(self._wake_all)

    def write(
        self,
        call: Callable[[Transaction], T],
        *,
        now: int | None,
        is_durable: bool = False,
        is_new: bool = False,
    ) -> asyncio.Future[T]:
        """Run *call* inside a transaction; with *is_new* it adds new jobs."""
        self._check_process()
        task = ThreadCall(call, now, is_durable, is_new)
        with self._lock:
            self._start().submit(task)
        return task.future

    def read(self, call: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        """Run *call* on a snapshot of the store."""
        self._check_process()
        with self._lock:
            writer = self._start()
            if self._reader is None:
                task = ThreadCall(lambda tx: call(tx.db))
                writer.submit(task)
            else:
                task = ThreadCall(call)
                self._reader.submit(task)
        return task.future

    def watching_changes(self) -> AbstractContextManager[None]:
        """Watch for writes of other processes, for as long as the context lasts."""
        self._check_process()
        with self._lock:
            self._start()
            if self._watcher is None:
                return nullcontext()
            return self._watcher.watching()

    def stop(self) -> None:
        """Finish submitted calls and end the threads; a forked child has none."""
        if self._pid != os.getpid():
            return
        with self._lock:
            threads = (self._watcher, self._reader, self._writer)
            self._watcher = self._reader = self._writer = None
        for thread in threads:
            if thread is not None:
                thread.stop()

    def _start(self) -> WriterThread:
        if self._writer is not None:
            return self._writer
        self._pid = os.getpid()
        self._writer = WriterThread(
            self.location, self.budget, self.clock, self._after_commit
        )
        self._writer.start()
        if self.location.path is not None:
            self._reader = ReaderThread(self.location, self.budget, "reader")
            self._reader.start()
            self._watcher = ChangeWatcher(
                self.location, self.budget, self._after_change
            )
            self._watcher.start()
        return self._writer

    def _check_process(self) -> None:
        # Before the lock: a thread of the parent may have held it at the fork.
        if self._writer is not None and self._pid != os.getpid():
            raise StoreRefused(
                f"{self.location.name} was opened by process {self._pid} and cannot "
                f"be used by its child {os.getpid()}: threads and file locks do not "
                "survive a fork; create a new store (a new Kue) in the child"
            )

    def _after_commit(
        self, db: sqlite3.Connection, ready: set[str], later: set[str], has_events: bool
    ) -> None:
        self.waiters.notify(ready, later)
        if has_events:
            self.subscribers.deliver_new(db)

    def _after_change(self, db: sqlite3.Connection) -> None:
        # Another process wrote something: all must check again.
        self._wake_all()
        self.subscribers.deliver_new(db)

    def _wake_all(self) -> None:
        self.waiters.notify(set(), {EVERY})
