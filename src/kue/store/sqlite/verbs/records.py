"""Small records, and the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.store.sqlite.transaction import Transaction, as_json
from kue.store.values import RINGS, AuditEntry, AuditPage

if TYPE_CHECKING:
    import sqlite3

    from msgspec import UnsetType

_KEEP = """
INSERT INTO kept (room, name, value, until) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET value = excluded.value, until = excluded.until
"""
_KEPT = """
SELECT value FROM kept WHERE room = ? AND name = ? AND (until IS NULL OR until > ?)
"""
_ALL = """
SELECT name, value FROM kept WHERE room = ? AND (until IS NULL OR until > ?)
ORDER BY name
"""
_FORGET = "DELETE FROM kept WHERE room = ? AND name = ?"
_SWEEP = "DELETE FROM kept WHERE until IS NOT NULL AND until <= ?"
_NOTE = "INSERT INTO acts (at, act, ring) VALUES (?, ?, ?)"
_TRIM = """
DELETE FROM acts WHERE ring = ?1 AND id <= (
    SELECT id FROM acts WHERE ring = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2
)
"""
_ACTS = "SELECT id, at, act FROM acts WHERE id < ? ORDER BY id DESC LIMIT ?"
#: Above every number.
_NEWEST = 2**62

_decode = msgspec.json.Decoder(AuditEntry).decode


def keep(
    turn: Transaction,
    room: str,
    name: str,
    value: str,
    was: str | UnsetType | None,
    until: int | None,
) -> bool:
    """Write a record, if it is what it must be; tell whether it is so now."""
    if was is not msgspec.UNSET:
        found = show(turn.db, room, name, turn.now)
        # Said a second time, it is so already.
        if found not in (was, value):
            return False
    turn.run(_KEEP, room, name, value, until)
    return True


def show(db: sqlite3.Connection, room: str, name: str, now: int) -> str | None:
    """Return a record; None when there is none, or it is over."""
    row = db.execute(_KEPT, (room, name, now)).fetchone()
    return None if row is None else str(row[0])


def show_all(db: sqlite3.Connection, room: str, now: int) -> dict[str, str]:
    """Return the records of a room, by name."""
    return dict(db.execute(_ALL, (room, now)).fetchall())


def forget(turn: Transaction, room: str, name: str) -> bool:
    """Delete a record; tell whether there was one that was not over."""
    was_there = show(turn.db, room, name, turn.now) is not None
    turn.run(_FORGET, room, name)
    return was_there


def sweep(turn: Transaction) -> None:
    """Delete records that are over."""
    turn.run(_SWEEP, turn.now)


def note(turn: Transaction, act: AuditEntry) -> int:
    """Append to the audit log; the oldest of its kind fall off."""
    turn.run(_NOTE, turn.now, as_json(act), act.ring)
    turn.run(_TRIM, act.ring, RINGS[act.ring])
    return int(turn.one("SELECT max(id) FROM acts"))


def acts(db: sqlite3.Connection, limit: int, before: int | None) -> AuditPage:
    """Return a page of the audit log, the newest first."""
    # One more than is shown tells whether there is more.
    last = _NEWEST if before is None else before
    rows = db.execute(_ACTS, (last, limit + 1)).fetchall()
    found = [
        msgspec.structs.replace(_decode(text), id=number, at=at)
        for number, at, text in rows
    ]
    return AuditPage.of(found, limit)
