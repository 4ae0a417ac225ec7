"""
Listening: events on their way from the table to those who listen in this process.

Who listens says so in the store, so that every process writes events for it.  Whoever
writes or notices new ones (the writer after a commit, the lookout after one of somebody
else) reads them once and hands them to all ears.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections import deque
from typing import TYPE_CHECKING, Any

import msgspec

from kue.model.events import Event, Kind
from kue.store.damage import is_damage
from kue.store.sqlite.connection import is_damaged_value
from kue.store.sqlite.transaction import Transaction, as_json
from kue.store.values import WATCH_MS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from kue.model.clock import Clock

#: Events read from the table at once.
CHUNK = 1000

_NEW = f"""
SELECT json_group_array(json_array(
    seq, kind, job_id, type, at, attempt, json(detail))) FROM (
    SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT {CHUNK})
"""
_LAST = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'"
_HIGHEST = "SELECT max(coalesce(max(seq), 0), ?) FROM events"
_IS_KNOWN = """
SELECT EXISTS (SELECT 1 FROM listeners WHERE name = ?1 AND deadline > ?2)
    OR EXISTS (SELECT 1 FROM watched WHERE listener = ?1 AND deadline > ?2)
"""
_LISTEN = """
INSERT INTO listeners (name, deadline) VALUES (?, ?)
ON CONFLICT DO UPDATE SET deadline = excluded.deadline
"""
_WATCH = """
INSERT INTO watched (job_id, listener, deadline)
SELECT value, ?, ? FROM json_each(?) WHERE true
ON CONFLICT DO UPDATE SET deadline = excluded.deadline
"""

#: seq, kind, job_id, type, at, attempt, detail
_Row = tuple[int, Kind, int, str, int, int, dict[str, Any]]
_decode = msgspec.json.Decoder(list[_Row]).decode


class Subscriber:
    """One listener: events wait here to be read, the newest *buffer* of them."""

    def __init__(
        self, job_ids: Sequence[int] | None, buffer: int, clock: Clock
    ) -> None:
        self.name = uuid.uuid4().hex
        self.job_ids = None if job_ids is None else frozenset(job_ids)
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._buffer = buffer
        self._events: deque[tuple[int, Event]] = deque()
        self._missed = 0
        #: The last event before it began to listen, or that it heard.
        self._last = 0
        self._has_news = asyncio.Event()

    def begin(self, seq: int) -> None:
        """Forget what was told up to *seq*, before it listened."""
        self._last = max(self._last, seq)
        while self._events and self._events[0][0] <= seq:
            self._events.popleft()

    def lapse(self) -> None:
        """Note that nobody wrote events for a while: who listens was forgotten."""
        self._missed += 1
        self._has_news.set()

    def hand(self, news: list[tuple[int, Event]], missed: int) -> None:
        """Hand over events, from any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._hear, news, missed)

    def _hear(self, news: list[tuple[int, Event]], missed: int) -> None:
        self._missed += missed
        for seq, event in news:
            # The same events may be read twice when another begins to listen.
            if seq > self._last:
                self._last = seq
                self._events.append((seq, event))
        while len(self._events) > self._buffer:
            self._events.popleft()
            self._missed += 1
        self._has_news.set()

    def __aiter__(self) -> Subscriber:
        return self

    async def __anext__(self) -> Event:
        while not self._events and not self._missed:
            self._has_news.clear()
            await self._has_news.wait()
        if self._missed:
            detail = {"missed": self._missed}
            self._missed = 0
            return Event(
                kind=Kind.LAGGED,
                job_id=0,
                type="",
                at=self._clock.now_ms(),
                detail=detail,
            )
        return self._events.popleft()[1]


class Subscribers:
    """Everyone who listens in this process, on whatever event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ears: set[Subscriber] = set()
        #: Up to here events were read; None while nobody listens.
        self._last: int | None = None

    def add(self, ear: Subscriber) -> None:
        with self._lock:
            self._ears.add(ear)

    def begin(self, ear: Subscriber, seq: int) -> None:
        """Hand over what comes after *seq*."""
        ear.begin(seq)
        with self._lock:
            self._last = seq if self._last is None else min(self._last, seq)

    def discard(self, ear: Subscriber) -> None:
        with self._lock:
            self._ears.discard(ear)
            if not self._ears:
                self._last = None

    def pump(self, db: sqlite3.Connection) -> None:
        """Read what is new and hand it to everyone it concerns."""
        with self._lock:
            while self._last is not None:
                rows = self._read(db, self._last)
                if not rows:
                    return
                rows.sort(key=lambda row: row[0])
                # Numbers follow each other: what is missing was pruned unread.
                missed = rows[0][0] - self._last - 1
                self._last = rows[-1][0]
                self._hand([(row[0], _event(row)) for row in rows], missed)

    def _read(self, db: sqlite3.Connection, last: int) -> list[_Row]:
        try:
            return _decode(db.execute(_NEW, (last,)).fetchone()[0])
        except Exception as exc:
            if is_damage(exc) or is_damaged_value(exc):
                # Or nobody would ever hear of what comes after it.
                self._last = db.execute(_HIGHEST, (last,)).fetchone()[0]
                self._hand([], self._last - last)
            raise

    def _hand(self, news: list[tuple[int, Event]], missed: int) -> None:
        for ear in self._ears:
            ids = ear.job_ids
            mine = (
                news
                if ids is None
                else [item for item in news if item[1].job_id in ids]
            )
            if mine or missed:
                ear.hand(mine, missed)


def listen(
    turn: Transaction, name: str, job_ids: Sequence[int] | None
) -> tuple[int, bool]:
    """
    Let a listener be known for a while.

    Returns the last event before that, and whether it was known all along.
    """
    deadline = turn.wall + WATCH_MS
    is_known = bool(turn.one(_IS_KNOWN, name, turn.wall))
    if job_ids is None:
        turn.run(_LISTEN, name, deadline)
    else:
        turn.run(_WATCH, name, deadline, as_json(list(job_ids)))
    last: int = turn.one(_LAST)
    return last, is_known


def unlisten(turn: Transaction, name: str) -> None:
    """Forget a listener."""
    turn.run("DELETE FROM listeners WHERE name = ?", name)
    turn.run("DELETE FROM watched WHERE listener = ?", name)


def _event(row: _Row) -> Event:
    _, kind, job_id, type, at, attempt, detail = row
    return Event(
        kind=kind, job_id=job_id, type=type, at=at, attempt=attempt, detail=detail
    )
