"""
Change watcher: polls for commits of other processes, while a caller here waits.

SQLite cannot notify of them.  ``PRAGMA data_version`` changes when another connection
has committed; polling it costs microseconds and reads no page of the file.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import KueError
from kue.store.sqlite import fork_lock
from kue.store.sqlite.connection import close, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.store.sqlite.file_url import FileLocation

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02
OnChange = Callable[[sqlite3.Connection], None]


class ChangeWatcher(threading.Thread):
    """A thread that polls every 20 ms, and only while a caller waits."""

    def __init__(
        self, location: FileLocation, budget: float, on_change: OnChange
    ) -> None:
        super().__init__(name="kue-watcher", daemon=True)
        self._location = location
        self._budget = budget
        self._on_change = on_change
        self._lock = threading.Lock()
        self._sleepers = 0
        self._is_needed = threading.Event()
        self._is_over = threading.Event()
        self._log = ThrottledLog(logger)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Poll for as long as the context lasts."""
        self._count_sleepers(1)
        try:
            yield
        finally:
            self._count_sleepers(-1)

    def _count_sleepers(self, by: int) -> None:
        with self._lock:
            self._sleepers += by
            if self._sleepers:
                self._is_needed.set()
            else:
                self._is_needed.clear()

    def stop(self) -> None:
        """End the thread; return when it has closed the file."""
        self._is_over.set()
        self._is_needed.set()
        self.join()

    def run(self) -> None:
        self._inside = fork_lock.enter()
        while not self._is_over.is_set():
            # An outage ends the connection, not the thread.  Callers of the store
            # notice it; here there is no caller to raise it to.
            try:
                self._watch()
            except (sqlite3.Error, KueError) as exc:
                logger.debug("%s: watching ended: %s", self._location.name, exc)
            except Exception as exc:
                self._log.error(
                    "%s: events cannot be read", self._location.name, exc=exc
                )
            self._is_over.wait(POLL_SECONDS)
        fork_lock.leave(self._inside)

    def _watch(self) -> None:
        """Poll one file, until the thread is stopped or the file is replaced."""
        self._is_needed.wait()
        if self._is_over.is_set():
            return
        with self._inside:
            db = connect(self._location, budget=self._budget)
        file = self._location.identity()
        seen = None
        try:
            while file == self._location.identity():
                if self._is_over.wait(POLL_SECONDS):
                    return
                self._is_needed.wait()
                with self._inside:
                    version = db.execute("PRAGMA data_version").fetchone()[0]
                    if version != seen:
                        seen = version
                        self._on_change(db)
        finally:
            with self._inside:
                close(db, self._location, file)
