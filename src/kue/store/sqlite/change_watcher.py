"""
The lookout: notices what other processes wrote, while someone here sleeps for it.

SQLite has no way to be told.  ``PRAGMA data_version`` changes when another connection
has committed; asking costs microseconds and reads no page of the file.
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
from kue.store.sqlite import forking
from kue.store.sqlite.connection import abandon, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.store.sqlite.file_url import FileLocation

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.02
OnChange = Callable[[sqlite3.Connection], None]


class ChangeWatcher(threading.Thread):
    """A thread that asks every 20 ms, and only while somebody sleeps."""

    def __init__(self, place: FileLocation, budget: float, on_change: OnChange) -> None:
        super().__init__(name="kue-lookout", daemon=True)
        self._place = place
        self._budget = budget
        self._on_change = on_change
        self._lock = threading.Lock()
        self._sleepers = 0
        self._is_needed = threading.Event()
        self._is_over = threading.Event()
        self._log = ThrottledLog(logger)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Look out for as long as the context lasts."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    def _change(self, by: int) -> None:
        with self._lock:
            self._sleepers += by
            if self._sleepers:
                self._is_needed.set()
            else:
                self._is_needed.clear()

    def stop(self) -> None:
        """End the thread and return when it let go of the file."""
        self._is_over.set()
        self._is_needed.set()
        self.join()

    def run(self) -> None:
        self._inside = forking.enter()
        self._look()
        forking.leave(self._inside)

    def _look(self) -> None:
        while not self._is_over.is_set():
            # An outage ends the watch and not the thread: it is told to those who
            # call the store, and here there is nobody to tell.
            try:
                self._watch()
            except (sqlite3.Error, KueError) as exc:
                logger.debug("%s: watching ended: %s", self._place.name, exc)
            except Exception as exc:
                self._log.error("%s: events cannot be read", self._place.name, exc=exc)
            self._is_over.wait(POLL_SECONDS)

    def _watch(self) -> None:
        self._is_needed.wait()
        if self._is_over.is_set():
            return
        with self._inside:
            db = connect(self._place, budget=self._budget)
        file = self._place.identity()
        try:
            self._poll(db, file)
        finally:
            with self._inside:
                self._let_go(db, file)

    def _let_go(self, db: sqlite3.Connection, file: tuple[int, int] | None) -> None:
        if file == self._place.identity():
            db.close()
        else:
            abandon(db)

    def _poll(self, db: sqlite3.Connection, file: tuple[int, int] | None) -> None:
        """Ask again and again, until it is over or the file is another."""
        seen = None
        while not self._is_over.wait(POLL_SECONDS):
            self._is_needed.wait()
            with self._inside:
                version = db.execute("PRAGMA data_version").fetchone()[0]
                if version != seen:
                    seen = version
                    self._on_change(db)
            if file != self._place.identity():
                return
