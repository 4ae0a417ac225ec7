"""Schedules: written, deleted, and fired when due, each time by one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.schedule import Schedule
from kue.store.sqlite.verb_transaction import Transaction, as_json
from kue.store.sqlite.verbs.add import store

if TYPE_CHECKING:
    import sqlite3

_WRITE = """
INSERT INTO schedules (name, next_at, schedule) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET next_at = excluded.next_at, schedule = excluded.schedule
"""
_DUE = """
SELECT name, schedule FROM schedules WHERE next_at <= ? ORDER BY next_at LIMIT ?
"""
_NEXT = "UPDATE schedules SET next_at = ?, schedule = ? WHERE name = ?"
#: A time in the far future.
_NEVER = 2**62

_decode = msgspec.json.Decoder(Schedule).decode


def write(tx: Transaction, schedule: Schedule) -> None:
    tx.run(_WRITE, schedule.name, schedule.next_at, as_json(schedule))


def delete(tx: Transaction, name: str) -> bool:
    return tx.run("DELETE FROM schedules WHERE name = ?", name) > 0


def show(db: sqlite3.Connection) -> list[Schedule]:
    """Return all schedules, by name, without those that cannot be read."""
    rows = db.execute("SELECT schedule FROM schedules ORDER BY name").fetchall()
    found = (_readable(row[0]) for row in rows)
    return [schedule for schedule in found if schedule is not None]


def damaged(db: sqlite3.Connection) -> list[str]:
    """Return the names of schedules that cannot be read."""
    rows = db.execute("SELECT name, schedule FROM schedules ORDER BY name").fetchall()
    return [name for name, text in rows if _readable(text) is None]


def are_due(db: sqlite3.Connection, now: int) -> bool:
    """Return whether a schedule is due."""
    return db.execute(_DUE, (now, 1)).fetchone() is not None


def fire(tx: Transaction, limit: int) -> tuple[int, bool]:
    """Add the jobs of due schedules; return how many, and whether there are more."""
    rows = tx.db.execute(_DUE, (tx.now, limit)).fetchall()
    fired = sum(_fire(tx, name, text) for name, text in rows)
    return fired, 0 < limit <= len(rows)


def _fire(tx: Transaction, name: str, text: str) -> int:
    schedule = _readable(text)
    if schedule is None:
        # It cannot be fired; the doctor reports it, and maintenance goes on.
        tx.run(_NEXT, _NEVER, text, name)
        return 0
    added = store(tx, [schedule.draft])
    following = schedule.following(tx.now)
    schedule = msgspec.structs.replace(schedule, next_at=following)
    tx.run(_NEXT, following, as_json(schedule), name)
    return sum(answer.new for answer in added)


def _readable(text: str) -> Schedule | None:
    try:
        return _decode(text)
    except ValueError:
        return None
