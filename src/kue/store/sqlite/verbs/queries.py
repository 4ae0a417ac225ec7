"""Queries: jobs, counts and logs, on one snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.job import Job, State
from kue.store.sqlite.rows import JobRow, rows_of, shown
from kue.store.sqlite.verbs import limits
from kue.store.sqlite.verbs.pages import page
from kue.store.values import LogLine, Page, PageRequest, held_by

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

    from kue.store.sqlite.verbs.pages import Key

_COUNTS = "SELECT type, state, sum(n) FROM counts GROUP BY type, state"
_TYPES = "SELECT name FROM types ORDER BY name"
_BOUNDS = "SELECT min(line), max(line) FROM logs WHERE job_id = ?"
_LOGS = """
SELECT text, level, attempt, at FROM logs
WHERE job_id = ? AND line BETWEEN ? AND ? ORDER BY line
"""


def get(db: sqlite3.Connection, ids: Sequence[int], now: int) -> list[Job | None]:
    rows = rows_of(db, dict.fromkeys(ids))
    jobs = {job.id: job for job in _jobs(db, rows, now)}
    return [jobs.get(job_id) for job_id in ids]


def read_page(
    db: sqlite3.Connection, request: PageRequest, after: Key | None, now: int
) -> Page:
    rows, last = page(db, request, after)
    cursor = None if last is None else f"{last[0]}:{last[1]}"
    return Page(_jobs(db, rows, now), cursor)


def _jobs(db: sqlite3.Connection, rows: Iterable[JobRow], now: int) -> list[Job]:
    found = [(row, shown(row)) for row in rows]
    waiting = {row.type for row, job in found if job.state is State.WAITING}
    if not waiting:
        return [job for _, job in found]
    by_type = {each.type: each for each in limits.type_limits_of(db, waiting, now)}
    return [
        job if job.state is not State.WAITING else _held(row, job, by_type[row.type])
        for row, job in found
    ]


def _held(row: JobRow, job: Job, type_limits: limits.TypeLimits) -> Job:
    """Return a waiting job with the reason why it is held back, if it is."""
    if row.held:
        reason = f"group {row.group_key!r} runs as many jobs as its limit allows"
    elif type_limits.pause is not None:
        reason = held_by(type_limits.pause)
    else:
        return job
    return msgspec.structs.replace(job, held=reason)


def count(db: sqlite3.Connection) -> dict[str, dict[State, int]]:
    counts = {type: dict.fromkeys(State, 0) for type in types(db)}
    for type, state, number in db.execute(_COUNTS):
        # The doctor reports a type or state that does not exist.
        if type in counts and state in counts[type]:
            counts[type][State(state)] = number
    return counts


def types(db: sqlite3.Connection) -> list[str]:
    return [row[0] for row in db.execute(_TYPES)]


def logs(db: sqlite3.Connection, job_id: int, start: int, stop: int) -> list[LogLine]:
    """Return lines *start* to *stop*, counted from the oldest one kept."""
    first, last = db.execute(_BOUNDS, (job_id,)).fetchone()
    if first is None:
        return []
    low = first + start if start >= 0 else max(first, last + 1 + start)
    high = first + stop if stop >= 0 else last + 1 + stop
    return [LogLine(*row) for row in db.execute(_LOGS, (job_id, low, high))]
