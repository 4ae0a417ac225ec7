"""
One verb's turn at writing: its moment, its tables, and what must follow from it.

A verb changes jobs and notes here what came of it (counts, statistics, events, groups
that lost a member, parents that ended, types with work).  What was noted is written at
the end of the turn, in few statements, however many jobs the verb touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.model.job import FINAL, State
from kue.store.codec import encode_json
from kue.store.sqlite.error_groups import ErrorGroupChanges

if TYPE_CHECKING:
    import sqlite3

    from kue.model.events import Kind

#: (kind, job_id, type, attempt, detail)
Told = tuple[str, int, str, int, dict[str, Any]]

_IS_HEARD = """
SELECT EXISTS (SELECT 1 FROM listeners WHERE deadline > ?1),
       EXISTS (SELECT 1 FROM watched WHERE deadline > ?1)
"""
_WATCHED = """
SELECT DISTINCT job_id FROM watched
WHERE deadline > ? AND job_id IN (SELECT value FROM json_each(?))
"""
_TELL = """
INSERT INTO events (at, told_at, kind, job_id, type, attempt, detail)
SELECT ?, ?, value->>0, value->>1, value->>2, value->>3, value->>4 FROM json_each(?)
"""
_COUNT = """
INSERT INTO counts (type, state, own, n) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET n = n + excluded.n
"""
_STAT = """
INSERT INTO stats (minute, type, added, complete, failed, run_ms)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET added = added + excluded.added,
    complete = complete + excluded.complete, failed = failed + excluded.failed,
    run_ms = run_ms + excluded.run_ms
"""


def as_json(value: Any) -> str:
    """Return *value* as JSON text, the form in which a statement takes many of them."""
    return encode_json(value).decode()


class TypeStats:
    """What happened to jobs of one type during a turn."""

    __slots__ = ("added", "complete", "failed", "run_ms")

    def __init__(self) -> None:
        self.added = self.complete = self.failed = self.run_ms = 0


class Transaction:
    """One verb at work inside a transaction."""

    __slots__ = (
        "_all_heard",
        "_counts",
        "_stats",
        "_told",
        "blame",
        "db",
        "dependants",
        "ended",
        "freed",
        "groups",
        "has_told",
        "is_heard",
        "later",
        "now",
        "ready",
        "wall",
    )

    def __init__(self, db: sqlite3.Connection, now: int, wall: int) -> None:
        """*now* is the jobs' time; *wall* the machine's, by which listeners live."""
        self.db = db
        self.now = now
        self.wall = wall
        heard = db.execute(_IS_HEARD, (wall,)).fetchone()
        self._all_heard = bool(heard[0])
        #: Whether anyone listens at all: if not, events cost nothing.
        self.is_heard = self._all_heard or bool(heard[1])
        self._counts: dict[tuple[str, str, bool], int] = {}
        self._stats: dict[str, TypeStats] = {}
        self._told: list[Told] = []
        #: What jobs failed of.
        self.blame = ErrorGroupChanges()
        #: Whether events were written.
        self.has_told = False
        #: Types of which a run ended.
        self.freed: set[str] = set()
        #: Groups that lost a member which ran or was ready to.
        self.groups: set[tuple[str, str]] = set()
        #: Parents that ended, and how: their dependants are still to be told.
        self.ended: list[tuple[int, str]] = []
        #: How many dependants were told.
        self.dependants = 0
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

    def count(self, type: str, state: str, by: int, *, own: bool = False) -> None:
        """Note that *by* more (or fewer) jobs are in *state*."""
        key = (type, state, own)
        self._counts[key] = self._counts.get(key, 0) + by

    def moved(self, type: str, before: str, after: str, n: int = 1) -> None:
        """Note that *n* jobs went from one state to another, neither of them final."""
        self.count(type, before, -n)
        self.count(type, after, n)

    def stats(self, type: str) -> TypeStats:
        stats = self._stats.get(type)
        if stats is None:
            stats = self._stats[type] = TypeStats()
        return stats

    def tell(
        self,
        kind: Kind,
        job_id: int,
        type: str,
        attempt: int,
        detail: dict[str, Any] | None = None,
    ) -> None:
        """Note an event, if anyone listens."""
        if self.is_heard:
            self._told.append((kind, job_id, type, attempt, detail or {}))

    def write(self) -> None:
        """Write what was noted since the last time."""
        counts = [(*key, by) for key, by in self._counts.items() if by]
        if counts:
            self.db.executemany(_COUNT, counts)
        for type, stat in self._stats.items():
            values = (stat.added, stat.complete, stat.failed, stat.run_ms)
            self.run(_STAT, self.now // 60_000, type, *values)
        self._counts.clear()
        self._stats.clear()
        self.blame.write(self.db)
        self._write_events()

    def _write_events(self) -> None:
        told = self._told
        if told and not self._all_heard:
            ids = as_json(list({event[1] for event in told}))
            watched = {row[0] for row in self.db.execute(_WATCHED, (self.wall, ids))}
            told = [event for event in told if event[1] in watched]
        if told:
            self.run(_TELL, self.now, self.wall, as_json(told))
            self.has_told = True
        self._told = []


def is_final(state: str) -> bool:
    """Tell whether a state, as it is written in the table, is an end."""
    return state in FINAL


def entered(turn: Transaction, type: str, state: State) -> None:
    """Note that a job of *type* came to *state*: whoever sleeps may have to know."""
    if state is State.WAITING:
        turn.ready.add(type)
    elif state is State.DELAYED:
        turn.later.add(type)
