"""Schedules: written, read and fired; a firing and its job are one transaction."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from kue.aio.throttled_log import ThrottledLog
from kue.model.schedule import (
    MAX_CATCH_UP,
    MAX_SCHEDULES,
    REFUSED_JOB,
    Firing,
    Schedule,
    manual_firing,
    next_firing,
    with_job,
)
from kue.store.sqlite.verb_transaction import as_json
from kue.store.sqlite.verbs import add, pages
from kue.store.validation import too_many_schedules

if TYPE_CHECKING:
    import sqlite3

    from kue.model.job import Job
    from kue.store.sqlite.verb_transaction import Transaction
    from kue.store.values import Added

logger = logging.getLogger(__name__)
_log = ThrottledLog(logger)

_WRITE = "REPLACE INTO schedules (name, next_at, schedule) VALUES (?, ?, ?)"
_DELETE = "DELETE FROM schedules WHERE name = ?"
_DUE = """
SELECT name FROM schedules WHERE next_at <= ? ORDER BY next_at, name LIMIT ?
"""

_decode = msgspec.json.Decoder(Schedule).decode


def schedule(
    tx: Transaction, schedule: Schedule, *, expected: Schedule | None = None
) -> bool:
    found = _read_one(tx.db, schedule.name)
    if found != ([] if expected is None else [expected]):
        return False
    if expected is None and _count(tx.db) >= MAX_SCHEDULES:
        raise too_many_schedules()
    _write(tx, schedule)
    return True


def unschedule(tx: Transaction, name: str) -> bool:
    return tx.run(_DELETE, name) > 0


def schedules(db: sqlite3.Connection, name: str | None = None) -> list[Schedule]:
    """Return schedules, by name, without those that cannot be read."""
    if name is None:
        found = [schedule for _, schedule in read_schedules(db)]
    else:
        found = _read_one(db, name)
    return [schedule for schedule in found if schedule is not None]


def read_schedules(db: sqlite3.Connection) -> list[tuple[str, Schedule | None]]:
    """Return all schedules with their names; None for those that cannot be read."""
    rows = db.execute("SELECT name, schedule FROM schedules ORDER BY name").fetchall()
    return [(name, _read(text)) for name, text in rows]


def fire(tx: Transaction, name: str) -> Added | None:
    """Add the job of a schedule by hand."""
    for schedule in schedules(tx.db, name):
        firing = manual_firing(schedule, tx.now, _open_jobs(tx, schedule))
        return _fire(tx, firing, name)
    return None


def has_due(db: sqlite3.Connection, now: int) -> bool:
    """Return whether a schedule is due."""
    return db.execute(_DUE, (now, 1)).fetchone() is not None


def fire_due(tx: Transaction, limit: int) -> tuple[int, bool]:
    """
    Fire due schedules; return how many jobs were added, and whether more are due.

    One tick of each, the longest overdue first, and then those that are due again.
    """
    count, left = 0, limit
    due = [name for (name,) in tx.db.execute(_DUE, (tx.now, limit)).fetchall()]
    for _ in range(MAX_CATCH_UP):
        due = due[:left]
        for name in due:
            count += _fire_one(tx, name)
        left -= len(due)
        again = [schedule for name in due for schedule in schedules(tx.db, name)]
        due = [one.name for one in sorted(again, key=_order) if one.is_due(tx.now)]
        if not due:
            break
    return count, limit > 0 and left <= 0


def _order(schedule: Schedule) -> tuple[int, str]:
    return schedule.next_at or 0, schedule.name


def _fire_one(tx: Transaction, name: str) -> bool:
    """Fire one tick of a schedule; return whether it added a job."""
    for due in _read_one(tx.db, name):
        if due is None:
            # A newer version may have written it, whose workers fire it.
            _log.error("schedule %s cannot be read, and does not fire", name)
            return False
        try:
            firing = next_firing(due, tx.now, _open_jobs(tx, due))
        except ValueError as exc:
            # Its time zone is not known here; another process may know it.
            _log.error("schedule %s does not fire: %s", name, exc)
            return False
        added = _fire(tx, firing, name)
        return added is not None and added.new
    return False


def _fire(tx: Transaction, firing: Firing, name: str) -> Added | None:
    """Make a firing; return its job, if it has one."""
    added = add.store(tx, add.CallPart.of([firing.draft]))[0] if firing.draft else None
    if firing.after is None:
        tx.run(_DELETE, name)
    elif added is None:
        _write(tx, firing.after)
    else:
        is_its_own = added.new or added.replaced
        none = REFUSED_JOB if added.is_refused else 0
        _write(tx, with_job(firing.after, added.id if is_its_own else none))
    return added


def _open_jobs(tx: Transaction, schedule: Schedule) -> dict[int, Job | None]:
    ids = schedule.open_jobs
    return dict(zip(ids, pages.get(tx.db, ids, now=tx.now), strict=True))


def _write(tx: Transaction, schedule: Schedule) -> None:
    tx.run(_WRITE, schedule.name, schedule.next_at, as_json(schedule))


def _read_one(db: sqlite3.Connection, name: str) -> list[Schedule | None]:
    sql = "SELECT schedule FROM schedules WHERE name = ?"
    return [_read(text) for (text,) in db.execute(sql, (name,)).fetchall()]


def _count(db: sqlite3.Connection) -> int:
    [count] = db.execute("SELECT count(*) FROM schedules").fetchone()
    return int(count)


def _read(text: str) -> Schedule | None:
    """Read a schedule; None if it is damaged, so that the others still fire."""
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return None
