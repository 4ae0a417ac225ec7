"""
Flows: counters of the members of a job's flow, kept by everything that moves one.

Counters are of members that exist, and of those that were removed since.  A removed job
has no flow: its row here is deleted by maintenance.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from kue.model.job import FINAL, State
from kue.store.codec import encode_json
from kue.store.values import FlowCounts

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from kue.store.sqlite.rows import StateRow

#: How many members exist, how they ended, and how those ended that were removed.
COUNTERS = (
    *("members", "complete", "failed", "cancelled"),
    *("gone_complete", "gone_failed", "gone_cancelled"),
)
_BEGIN = """
INSERT OR IGNORE INTO flows (id)
SELECT id FROM jobs WHERE id IN (SELECT value FROM json_each(?))
"""
_CHANGE = f"""
UPDATE flows SET {", ".join(f"{name} = {name} + ?" for name in COUNTERS)} WHERE id = ?
"""
_COUNTS = """
SELECT id, members + gone_complete + gone_failed + gone_cancelled,
    complete + gone_complete, failed + gone_failed, cancelled + gone_cancelled
FROM flows JOIN jobs USING (id) WHERE id IN (SELECT value FROM json_each(?))
"""
_FORGET = """
DELETE FROM flows WHERE id IN (
    SELECT id FROM flows WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE id = flows.id)
    LIMIT ?)
"""


class FlowChanges:
    """What a transaction changes in the counters of flows."""

    def __init__(self) -> None:
        self._changes: defaultdict[int, Counter[str]] = defaultdict(Counter)

    def add(self, flow: int, state: State) -> None:
        """Note that a member was added."""
        self._changes[flow]["members"] += 1
        self._changes[flow][state] += 1

    def move(self, rows: Iterable[StateRow], to: State) -> None:
        """Note that jobs, some of which may be members, change state."""
        for row in rows:
            if row.flow is not None:
                self._changes[row.flow][row.state] -= 1
                self._changes[row.flow][to] += 1

    def remove(self, rows: Iterable[StateRow], state: State | None = None) -> None:
        """Note that jobs are removed, in *state* if not in that of their rows."""
        for row in rows:
            if row.flow is not None:
                change, was = self._changes[row.flow], state or row.state
                change["members"] -= 1
                change[was] -= 1
                change[f"gone_{was if was in FINAL else State.CANCELLED}"] += 1

    def write(self, db: sqlite3.Connection) -> None:
        """Write what was noted since the last write."""
        for flow, change in self._changes.items():
            db.execute(_CHANGE, (*(change[name] for name in COUNTERS), flow))
        self._changes.clear()


def begin(db: sqlite3.Connection, flows: Iterable[int]) -> None:
    """Begin to count the members of jobs, if those exist."""
    db.execute(_BEGIN, (encode_json(list(flows)).decode(),))


def counts(db: sqlite3.Connection, flows: Sequence[int]) -> list[FlowCounts]:
    found = {
        flow: FlowCounts(*numbers)
        for flow, *numbers in db.execute(_COUNTS, (encode_json(list(flows)).decode(),))
    }
    return [found.get(flow, FlowCounts()) for flow in flows]


def forget(db: sqlite3.Connection, limit: int) -> int:
    """Delete counters of jobs that were removed; return of how many."""
    return db.execute(_FORGET, (limit,)).rowcount
