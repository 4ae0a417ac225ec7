"""Queries: counts and logs; `get` and `page` are in ``pages``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.job import State
from kue.store.values import LogLine

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

_COUNTS = "SELECT type, state, sum(n) FROM counts GROUP BY type, state"
_TYPES = "SELECT name FROM types ORDER BY name"
_BOUNDS = "SELECT min(line), max(line) FROM logs WHERE job_id = ?"
_LOGS = """
SELECT text, level, attempt, at FROM logs
WHERE job_id = ? AND line BETWEEN ? AND ? ORDER BY line
"""


def count(db: sqlite3.Connection) -> dict[str, dict[State, int]]:
    counts = {type: dict.fromkeys(State, 0) for type in types(db)}
    for type, state, number in db.execute(_COUNTS):
        # The doctor reports a type or state that does not exist.
        if type in counts and state in counts[type]:
            counts[type][State(state)] = number
    return counts


def types(db: sqlite3.Connection) -> list[str]:
    return [row[0] for row in db.execute(_TYPES)]


def logs(
    db: sqlite3.Connection, job_id: int, start: int = 0, stop: int = -1
) -> list[LogLine]:
    """Return lines *start* to *stop*, counted from the oldest one kept."""
    first, last = db.execute(_BOUNDS, (job_id,)).fetchone()
    if first is None:
        return []
    low = first + start if start >= 0 else max(first, last + 1 + start)
    high = first + stop if stop >= 0 else last + 1 + stop
    return [LogLine(*row) for row in db.execute(_LOGS, (job_id, low, high))]


def newest_logs(
    db: sqlite3.Connection, job_ids: Sequence[int], lines: int
) -> list[list[LogLine]]:
    return [logs(db, job_id, -lines, -1) for job_id in job_ids]
