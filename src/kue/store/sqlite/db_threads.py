"""
Database threads of a store: one writes, one reads.

The writer gathers the calls of many clients into one transaction (group commit), each
in its own savepoint, so that one that fails does not undo the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kue.aio.loop_calls import hand_over
from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import KueError
from kue.store.corruption_errors import corrupt, is_damage
from kue.store.sqlite import fork_lock
from kue.store.sqlite.connection import begin, close, connect, full, is_full, translated
from kue.store.sqlite.dependencies import apply_side_effects
from kue.store.sqlite.disk_reserve import DiskReserve
from kue.store.sqlite.verb_transaction import Transaction

if TYPE_CHECKING:
    from kue.model.clock import TimeSource
    from kue.store.sqlite.file_url import FileLocation

logger = logging.getLogger(__name__)
#: Called with the types that are ready, those whose next due time changed, and whether
#: there are events.
OnCommit = Callable[[sqlite3.Connection, set[str], set[str], bool], None]
#: The most calls in one transaction, and how long it may keep taking more: other
#: processes are waiting.
MAX_CALLS = 128
MAX_SECONDS = 0.05


@dataclass(slots=True, eq=False)
class ThreadCall:
    """A call for another thread, and the future that waits for it."""

    call: Callable[..., Any]
    now: int | None = None
    is_durable: bool = False
    #: Whether it adds new jobs, which a full disk does not take.
    is_new: bool = False
    result: Any = None
    error: Exception | None = None
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    future: asyncio.Future[Any] = field(init=False)

    def __post_init__(self) -> None:
        self.future = self.loop.create_future()


def resolve(tasks: list[ThreadCall]) -> None:
    """Resolve the futures of *tasks*, with one wake-up per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[ThreadCall]] = {}
    for task in tasks:
        by_loop.setdefault(task.loop, []).append(task)
    for loop, mine in by_loop.items():
        hand_over(loop, _resolve_here, mine)


def _resolve_here(tasks: list[ThreadCall]) -> None:
    for task in tasks:
        # The caller may have been cancelled; what was done stays done.
        if task.future.done():
            continue
        if task.error is not None:
            task.future.set_exception(task.error)
        else:
            task.future.set_result(task.result)


class DatabaseThread(threading.Thread):
    """A thread with its own connection, which serves calls in order."""

    def __init__(self, location: FileLocation, budget: float, name: str) -> None:
        super().__init__(name=f"kue-{name}", daemon=True)
        self._location = location
        self._budget = budget
        self._calls: queue.SimpleQueue[ThreadCall | None] = queue.SimpleQueue()
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._reserve = DiskReserve(location)
        self._log = ThrottledLog(logger)

    def submit(self, task: ThreadCall) -> None:
        self._calls.put(task)

    def stop(self) -> None:
        """Serve the remaining calls, then close the file; return when done."""
        self._calls.put(None)
        self.join()

    def run(self) -> None:
        is_open = True
        inside = fork_lock.enter()
        while is_open:
            tasks, is_open = self._next()
            if tasks:
                with inside:
                    self._answer(tasks)
        with inside:
            self._disconnect()
        fork_lock.leave(inside)

    def _next(self) -> tuple[list[ThreadCall], bool]:
        """Wait for calls; return them, and whether more will come."""
        tasks: list[ThreadCall] = []
        task = self._calls.get()
        while task is not None:
            if not task.future.cancelled():
                tasks.append(task)
            if len(tasks) == MAX_CALLS:
                return tasks, True
            try:
                task = self._calls.get_nowait()
            except queue.Empty:
                return tasks, True
        return tasks, False

    def _answer(self, tasks: list[ThreadCall]) -> None:
        """Serve calls; a bug must not end the thread, or all later calls would hang."""
        try:
            self._serve(tasks)
        except Exception as exc:
            self._log.error("%s: a call failed", self._location.name, exc=exc)
            self._refuse(tasks, exc)

    def _refuse(self, tasks: list[ThreadCall], error: Exception) -> None:
        for task in tasks:
            task.error = error
        resolve(tasks)

    def _serve(self, tasks: list[ThreadCall]) -> None:
        raise NotImplementedError

    def _connection(self) -> sqlite3.Connection:
        """Return the connection; a new one if the file was replaced in the meantime."""
        if self._db is not None and self._file != self._location.identity():
            logger.warning("%s was replaced while it was in use", self._location.name)
            self._disconnect()
        if self._db is None:
            self._db = self._connect()
            self._file = self._location.identity()
        return self._db

    def _connect(self) -> sqlite3.Connection:
        try:
            return connect(self._location, budget=self._budget)
        except sqlite3.Error as exc:
            # There was not even room to start the write-ahead log.
            if not is_full(exc) or not self._reserve.release():
                raise
        return connect(self._location, budget=self._budget)

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with contextlib.suppress(sqlite3.Error):
                close(db, self._location, self._file)

    def _translated(self, exc: Exception) -> Exception:
        if isinstance(exc, sqlite3.Error):
            error = translated(exc, self._location.name)
            error.__cause__ = exc
            return error
        # The one place that guards reads of SQLite: see kue.store.corruption_errors.
        return corrupt(self._location.name, exc) if is_damage(exc) else exc


class ReaderThread(DatabaseThread):
    """Serves reads, each on a snapshot of the store."""

    def _serve(self, tasks: list[ThreadCall]) -> None:
        for task in tasks:
            try:
                task.result = self._read(task)
            except Exception as exc:
                self._disconnect()
                task.error = self._translated(exc)
            resolve([task])

    def _read(self, task: ThreadCall) -> object:
        db = self._connection()
        db.execute("BEGIN")
        try:
            return task.call(db)
        finally:
            db.execute("COMMIT")


class WriterThread(DatabaseThread):
    """Serves writes, many in one transaction."""

    def __init__(
        self,
        location: FileLocation,
        budget: float,
        clock: TimeSource,
        on_commit: OnCommit,
    ) -> None:
        super().__init__(location, budget, "writer")
        self._clock = clock
        self._on_commit = on_commit

    def _serve(self, tasks: list[ThreadCall]) -> None:
        tasks = self._admitted(tasks)
        while tasks:
            tasks = self._transact(tasks)
        self._reserve.restore(self._unused)

    def _admitted(self, tasks: list[ThreadCall]) -> list[ThreadCall]:
        """Refuse new jobs that would use the disk reserve; return the other calls."""
        if not any(task.is_new for task in tasks) or self._reserve.admits(self._unused):
            return tasks
        refused = [task for task in tasks if task.is_new]
        self._refuse(refused, full(self._location.name))
        return [task for task in tasks if not task.is_new]

    def _unused(self) -> int:
        """Return how many bytes of the file are free for new jobs."""
        try:
            db = self._connection()
            pages = db.execute("PRAGMA freelist_count").fetchone()[0]
            return int(pages * db.execute("PRAGMA page_size").fetchone()[0])
        except (sqlite3.Error, KueError):
            return 0

    def _transact(self, tasks: list[ThreadCall]) -> list[ThreadCall]:
        """Run as many calls as one transaction should; return the remaining ones."""
        deadline = time.monotonic() + MAX_SECONDS
        transactions: list[Transaction] = []
        served = 0
        try:
            db = self._begin(tasks)
            for task in tasks:
                self._perform(db, task, transactions, is_alone=len(tasks) == 1)
                served += 1
                if time.monotonic() > deadline:
                    break
            db.execute("COMMIT")
        except Exception as exc:
            if is_full(exc):
                return self._make_room(tasks, exc)
            self._fail_all(tasks, exc)
            return []
        resolve(tasks[:served])
        self._notify(db, transactions)
        return tasks[served:]

    def _make_room(self, tasks: list[ThreadCall], exc: Exception) -> list[ThreadCall]:
        """Refuse calls with new jobs; return the others if they are worth a retry."""
        self._roll_back()
        must = [task for task in tasks if not task.is_new]
        if not must or not self._reserve.release():
            self._fail_all(tasks, exc)
            return []
        self._refuse([task for task in tasks if task.is_new], self._translated(exc))
        # Restart the write-ahead log from its beginning, where it need not grow.
        if self._db is not None:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        return must

    def _connect(self) -> sqlite3.Connection:
        db = super()._connect()
        # It waits only in `begin`, which has its own retry loop.
        db.execute("PRAGMA busy_timeout = 0")
        return db

    def _begin(self, tasks: list[ThreadCall]) -> sqlite3.Connection:
        db = self._connection()
        # It cannot be changed inside a transaction.
        is_durable = any(task.is_durable for task in tasks)
        db.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")
        begin(db, self._budget)
        return db

    def _perform(
        self,
        db: sqlite3.Connection,
        task: ThreadCall,
        transactions: list[Transaction],
        is_alone: bool,
    ) -> None:
        """Run one call.  Alone it needs no savepoint: all is undone if it fails."""
        if is_alone:
            transactions.append(self._run_call(db, task))
            return
        db.execute("SAVEPOINT call")
        try:
            transactions.append(self._run_call(db, task))
        except Exception as exc:
            # Out of disk or memory SQLite rolls back the whole transaction by itself.
            # Calls without new jobs are retried, using the disk reserve.
            if not db.in_transaction or (is_full(exc) and not task.is_new):
                raise
            db.execute("ROLLBACK TO call")
            task.error = self._translated(exc)
        db.execute("RELEASE call")

    def _run_call(self, db: sqlite3.Connection, task: ThreadCall) -> Transaction:
        now = self._clock.now_ms() if task.now is None else task.now
        tx = Transaction(db, now, time.time_ns() // 1_000_000)
        result = task.call(tx)
        apply_side_effects(tx)
        task.result = result
        return tx

    def _fail_all(self, tasks: list[ThreadCall], exc: Exception) -> None:
        self._roll_back()
        # On a full disk the connection is still usable, and its write-ahead log may be
        # the only one that there is room for.
        if isinstance(exc, sqlite3.Error) and not is_full(exc):
            self._disconnect()
        self._refuse(tasks, self._translated(exc))

    def _roll_back(self) -> None:
        if self._db is not None and self._db.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")

    def _notify(self, db: sqlite3.Connection, transactions: list[Transaction]) -> None:
        ready = set().union(*(tx.ready for tx in transactions))
        later = set().union(*(tx.later for tx in transactions))
        has_events = any(tx.has_events for tx in transactions)
        if ready or later or has_events:
            # What was committed stays committed, even if its events cannot be read.
            # The thread must go on: it serves all calls.
            try:
                self._on_commit(db, ready, later, has_events)
            except sqlite3.Error as exc:
                logger.debug("events of a commit cannot be read: %s", exc)
            except Exception as exc:
                self._log.error(
                    "%s: events cannot be read", self._location.name, exc=exc
                )
