"""
Events and subscriptions: events from the table for the subscribers in this process.

A subscriber registers in the store, so that every process writes events for it.  New
events (after a commit of the writer thread, or one that the change watcher noticed) are
read once and delivered to all subscribers.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import TYPE_CHECKING

import msgspec

from kue.aio.loop_calls import hand_over
from kue.model.events import Event
from kue.store.corruption_errors import is_damage
from kue.store.event_buffer import EventBuffer
from kue.store.sqlite.connection import is_damaged_value
from kue.store.sqlite.verb_transaction import Transaction, as_json
from kue.store.values import WATCH_MS

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

#: Events read from the table at once.
CHUNK = 1000

_NEW = f"""
SELECT json_group_array(json_array(seq, json_object(
    'kind', kind, 'job_id', job_id, 'type', type, 'at', at, 'attempt', attempt,
    'detail', json(detail)))) FROM (
    SELECT * FROM events WHERE seq > ? ORDER BY seq LIMIT {CHUNK})
"""
_LAST = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'"
_HIGHEST = "SELECT max(coalesce(max(seq), 0), ?) FROM events"
_IS_KNOWN = """
SELECT EXISTS (SELECT 1 FROM listeners WHERE name = ?1 AND deadline > ?2)
    OR EXISTS (SELECT 1 FROM watched WHERE listener = ?1 AND deadline > ?2)
"""
_LISTEN = "REPLACE INTO listeners (name, deadline) VALUES (?, ?)"
_WATCH = """
INSERT INTO watched (job_id, listener, deadline)
SELECT value, ?, ? FROM json_each(?) WHERE true
ON CONFLICT DO UPDATE SET deadline = excluded.deadline
"""

#: An event, after its number.
_Numbered = tuple[int, Event]
_decode = msgspec.json.Decoder(list[_Numbered]).decode


class Subscriber(EventBuffer):
    """A subscriber, with a buffer of its newest *buffer* unread events."""

    def __init__(self, job_ids: Sequence[int] | None, buffer: int) -> None:
        self.job_ids = None if job_ids is None else frozenset(job_ids)
        super().__init__(buffer, only=self.job_ids)
        self.name = uuid.uuid4().hex
        self._loop = asyncio.get_running_loop()
        #: The last event before it subscribed, or that it received.
        self._last = 0

    def begin(self, seq: int) -> None:
        """Drop the events up to *seq*, which are from before it subscribed."""
        self._last = max(self._last, seq)
        self.drop(seq)

    def deliver(self, events: list[_Numbered], missed: int) -> None:
        """Deliver events, from any thread."""
        hand_over(self._loop, self._receive, events, missed)

    def _receive(self, events: list[_Numbered], missed: int) -> None:
        if missed:
            self.lag(missed)
        for seq, event in events:
            # The same events may be read twice when another one subscribes.
            if seq > self._last:
                self._last = seq
                self.put(event, seq)


class Subscribers:
    """All subscribers of this process, on any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: set[Subscriber] = set()
        #: Up to here events were read; None without subscribers.
        self._last: int | None = None

    def add(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._subscribers.add(subscriber)

    def begin(self, subscriber: Subscriber, seq: int) -> None:
        """Deliver events after *seq*."""
        subscriber.begin(seq)
        with self._lock:
            self._last = seq if self._last is None else min(self._last, seq)

    def discard(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._subscribers.discard(subscriber)
            if not self._subscribers:
                self._last = None

    def deliver_new(self, db: sqlite3.Connection) -> None:
        """Read new events and deliver them to the subscribers they concern."""
        with self._lock:
            while self._last is not None:
                events = self._read(db, self._last)
                if not events:
                    return
                events.sort(key=lambda event: event[0])
                # Numbers are consecutive: what is missing was pruned unread.
                missed = events[0][0] - self._last - 1
                self._last = events[-1][0]
                self._deliver(events, missed)

    def _read(self, db: sqlite3.Connection, last: int) -> list[_Numbered]:
        try:
            return _decode(db.execute(_NEW, (last,)).fetchone()[0])
        except Exception as exc:
            if is_damage(exc) or is_damaged_value(exc):
                # Otherwise later events would never be delivered.
                self._last = db.execute(_HIGHEST, (last,)).fetchone()[0]
                self._deliver([], self._last - last)
            raise

    def _deliver(self, events: list[_Numbered], missed: int) -> None:
        for subscriber in self._subscribers:
            ids = subscriber.job_ids
            mine = (
                events
                if ids is None
                else [item for item in events if item[1].job_id in ids]
            )
            if mine or missed:
                subscriber.deliver(mine, missed)


def subscribe(tx: Transaction, subscriber: Subscriber) -> tuple[int, bool]:
    """
    Register or renew a subscriber.

    Returns the last event before that, and whether its subscription was still valid.
    """
    deadline = tx.wall + WATCH_MS
    is_known = bool(tx.one(_IS_KNOWN, subscriber.name, tx.wall))
    if subscriber.job_ids is None:
        tx.run(_LISTEN, subscriber.name, deadline)
    else:
        tx.run(_WATCH, subscriber.name, deadline, as_json(subscriber.job_ids))
    last: int = tx.one(_LAST)
    return last, is_known


def unsubscribe(tx: Transaction, subscriber: Subscriber) -> None:
    tx.run("DELETE FROM listeners WHERE name = ?", subscriber.name)
    tx.run("DELETE FROM watched WHERE listener = ?", subscriber.name)
