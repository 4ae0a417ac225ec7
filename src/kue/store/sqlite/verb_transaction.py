"""
Transaction of one verb: its time, its connection, and the changes that follow from it.

A verb changes jobs and notes here what follows (counts, statistics, events, groups
that lost a member, parents that ended, types with work).  The notes are written at the
end, in few statements, however many jobs the verb changed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kue.model.job import State
from kue.store.codec import encode_json
from kue.store.sqlite.error_groups import ErrorGroupChanges
from kue.store.sqlite.flows import FlowChanges

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from kue.model.events import Kind
    from kue.store.values import Limits

#: (kind, job_id, type, attempt, detail)
EventValues = tuple[str, int, str, int, dict[str, Any]]

_HAS_SUBSCRIBERS = """
SELECT EXISTS (SELECT 1 FROM listeners WHERE deadline > ?1),
       EXISTS (SELECT 1 FROM watched WHERE deadline > ?1)
"""
_HAS_QUIET = "SELECT EXISTS (SELECT 1 FROM meta WHERE name = 'quiet')"
_IS_QUIET = "SELECT quiet FROM jobs WHERE id = ?"
_WATCHED = """
SELECT DISTINCT job_id FROM watched
WHERE deadline > ? AND job_id IN (SELECT value FROM json_each(?))
"""
_PUBLISH = """
INSERT INTO events (at, told_at, kind, job_id, type, attempt, detail)
SELECT ?, ?, value->>0, value->>1, value->>2, value->>3, value->>4 FROM json_each(?)
"""
_COUNT = """
INSERT INTO counts (type, state, own, n) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET n = n + excluded.n
"""
_STAT = """
INSERT INTO stats (minute, type, added, complete, failed, run_ms, work_ms)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET added = added + excluded.added,
    complete = complete + excluded.complete, failed = failed + excluded.failed,
    run_ms = run_ms + excluded.run_ms, work_ms = work_ms + excluded.work_ms
"""
_READ_META = "SELECT value FROM meta WHERE name = ?"
_WRITE_META = "REPLACE INTO meta (name, value) VALUES (?, ?)"


def as_json(value: Any) -> str:
    """Return *value* as JSON text: a statement takes many values as one."""
    return encode_json(value).decode()


def read_meta(db: sqlite3.Connection, name: str, *, default: int = 0) -> int:
    """Return a number or time that the whole store shares."""
    row = db.execute(_READ_META, (name,)).fetchone()
    return default if row is None else int(row[0])


class TypeStats:
    """Statistics of jobs of one type during a transaction."""

    def __init__(self) -> None:
        self.added = self.complete = self.failed = self.run_ms = self.work_ms = 0


class Transaction:
    """One verb's part of an SQLite transaction."""

    def __init__(self, db: sqlite3.Connection, now: int, wall: int) -> None:
        """*now* is the jobs' time; *wall* the machine's, which subscriptions use."""
        self.db = db
        self.now = now
        self.wall = wall
        to_all, to_some = db.execute(_HAS_SUBSCRIBERS, (wall,)).fetchone()
        self._has_listeners = bool(to_all)
        #: Whether there are subscribers at all: if not, events cost nothing.
        self.has_subscribers = bool(to_all or to_some)
        #: Jobs whose events are off, or on, once looked up.
        self._quiet: dict[int, bool] = {}
        self._counts: defaultdict[tuple[str, str, bool], int] = defaultdict(int)
        #: Statistics by type.
        self.stats: defaultdict[str, TypeStats] = defaultdict(TypeStats)
        self._events: list[EventValues] = []
        self.error_changes = ErrorGroupChanges()
        self.flow_changes = FlowChanges()
        #: Whether events were written.
        self.has_events = False
        #: Types of which a run ended.
        self.freed: set[str] = set()
        #: Groups that lost a member which was running or ready.
        self.groups: set[tuple[str, str]] = set()
        #: Named limits that lost a member which was running or ready; and how many
        #: were not running: their starts are left to others.
        self.limits: Counter[str] = Counter()
        #: Parents that ended, and how: their dependants are still to be notified.
        self.ended: list[tuple[int, str]] = []
        #: How many dependants were notified.
        self.dependants = 0
        #: Caps and orders of types, once they were read: see `ranking.rule_of`.
        self.rules: dict[str, Limits | None] = {}
        #: Types that may have work now, and types whose next due time changed.
        self.ready: set[str] = set()
        self.later: set[str] = set()

    def one(self, sql: str, *values: Any) -> Any:
        """Return the first column of the first row, None if there is none."""
        row = self.db.execute(sql, values).fetchone()
        return None if row is None else row[0]

    def run(self, sql: str, *values: Any) -> int:
        """Run a statement and return how many rows it changed."""
        return self.db.execute(sql, values).rowcount

    def write_meta(self, name: str, value: int) -> None:
        """Write a number or time that the whole store shares."""
        self.run(_WRITE_META, name, value)

    def count(self, type: str, state: str, by: int, *, own: bool = False) -> None:
        """Note that *by* more (or fewer) jobs are in *state*."""
        self._counts[type, state, own] += by

    def noted(self, type: str, state: str) -> int:
        """Return by how many jobs in *state* this transaction changes the count."""
        return self._counts[type, state, False]

    def moved(self, type: str, before: str, after: str, n: int = 1) -> None:
        """Note that *n* jobs went from one state to another, neither of them final."""
        self.count(type, before, -n)
        self.count(type, after, n)

    def publish(
        self,
        kind: Kind,
        job_id: int,
        type: str,
        attempt: int,
        detail: dict[str, Any] | None = None,
    ) -> None:
        """Note an event, if there are subscribers; before the job is deleted."""
        if self.has_subscribers and not (self._has_quiet and self._is_quiet(job_id)):
            self._events.append((kind, job_id, type, attempt, detail or {}))

    def watched(self, ids: Iterable[int]) -> set[int]:
        """Return those of some jobs that have subscribers of their own."""
        if not self.has_subscribers:
            return set()
        wanted = as_json(list(ids))
        return {row[0] for row in self.db.execute(_WATCHED, (self.wall, wanted))}

    @cached_property
    def _has_quiet(self) -> bool:
        """Whether there may be jobs whose events are off."""
        return bool(self.one(_HAS_QUIET))

    def note_quiet(self, job_id: int) -> None:
        """Note that events of a job that is added, or replaced, are off."""
        self._quiet[job_id] = True
        if not self._has_quiet:
            self.write_meta("quiet", 1)
            self._has_quiet = True

    def _is_quiet(self, job_id: int) -> bool:
        # Remembered: an event may follow once the job is deleted.
        if job_id not in self._quiet:
            self._quiet[job_id] = bool(self.one(_IS_QUIET, job_id))
        return self._quiet[job_id]

    def write(self) -> None:
        """Write what was noted since the last write."""
        changes = [(*key, by) for key, by in self._counts.items() if by]
        if changes:
            self.db.executemany(_COUNT, changes)
        for type, stat in self.stats.items():
            counts = (stat.added, stat.complete, stat.failed)
            times = (stat.run_ms, stat.work_ms)
            self.run(_STAT, self.now // 60_000, type, *counts, *times)
        self._counts.clear()
        self.stats.clear()
        self.error_changes.write(self.db)
        self.flow_changes.write(self.db)
        self._write_events()

    def _write_events(self) -> None:
        events = self._events
        if events and not self._has_listeners:
            watched = self.watched({event[1] for event in events})
            events = [event for event in events if event[1] in watched]
        if events:
            self.run(_PUBLISH, self.now, self.wall, as_json(events))
            self.has_events = True
        self._events = []


def entered(tx: Transaction, type: str, state: State) -> None:
    """Note that a job of *type* came to *state*, to wake waiting workers."""
    if state is State.WAITING:
        tx.ready.add(type)
    elif state is State.DELAYED:
        tx.later.add(type)
