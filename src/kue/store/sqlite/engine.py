"""Engine of a SQLite store: its database threads, started when first needed."""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

from kue.model.errors import StoreRefused
from kue.store.sqlite.change_watcher import ChangeWatcher
from kue.store.sqlite.db_threads import CommitNotice, ReaderThread, WriterThread
from kue.store.sqlite.thread_calls import ThreadCall
from kue.store.sqlite.verbs.watch import Subscribers
from kue.store.sqlite.waiters import Waiters

if TYPE_CHECKING:
    import asyncio
    import sqlite3
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from kue.model.clock import Clock
    from kue.store.sqlite.file_url import FileLocation
    from kue.store.sqlite.transaction import Transaction

T = TypeVar("T")


class DatabaseThreads:
    """
    Runs calls on the store's threads.

    A store in memory has one connection and therefore one thread for writes and reads.
    """

    def __init__(self, location: FileLocation, clock: Clock, budget: float) -> None:
        self.waiters = Waiters()
        self.subscribers = Subscribers()
        self._location = location
        self._clock = clock
        self._budget = budget
        self._lock = threading.Lock()
        self._writer: WriterThread | None = None
        self._reader: ReaderThread | None = None
        self._watcher: ChangeWatcher | None = None
        self._pid = 0

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
            self._location, self._budget, self._clock, self._after_commit
        )
        self._writer.start()
        if self._location.path is not None:
            self._reader = ReaderThread(self._location, self._budget, "reader")
            self._reader.start()
            self._watcher = ChangeWatcher(
                self._location, self._budget, self._after_change
            )
            self._watcher.start()
        return self._writer

    def _check_process(self) -> None:
        # Before the lock: a thread of the parent may have held it at the fork.
        if self._writer is not None and self._pid != os.getpid():
            raise StoreRefused(
                f"{self._location.name} was opened by process {self._pid} and cannot "
                f"be used by its child {os.getpid()}: threads and file locks do not "
                "survive a fork; create a new store (a new Kue) in the child"
            )

    def _after_commit(self, db: sqlite3.Connection, notice: CommitNotice) -> None:
        self.waiters.notify(notice)
        if notice.has_events:
            self.subscribers.deliver_new(db)

    def _after_change(self, db: sqlite3.Connection) -> None:
        self.waiters.wake_all()
        self.subscribers.deliver_new(db)
