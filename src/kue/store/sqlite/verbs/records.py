"""Small records and the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.store.sqlite.verb_transaction import Transaction, as_json
from kue.store.validation import read_act_cursor
from kue.store.values import RINGS, AuditEntry, AuditPage, KeepRequest

if TYPE_CHECKING:
    import sqlite3

_KEEP = "REPLACE INTO kept (room, name, value, until) VALUES (?, ?, ?, ?)"
_KEPT = """
SELECT value FROM kept WHERE room = ? AND name = ? AND (until IS NULL OR until > ?)
"""
_ALL = """
SELECT name, value FROM kept WHERE room = ? AND (until IS NULL OR until > ?)
ORDER BY name
"""
_FORGET = "DELETE FROM kept WHERE room = ? AND name = ?"
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


def keep(tx: Transaction, request: KeepRequest) -> bool:
    if request.was is not msgspec.UNSET:
        found = show(tx.db, request.room, request.name, now=tx.now)
        # A repeated call finds the new value.
        if found not in (request.was, request.value):
            return False
    tx.run(_KEEP, request.room, request.name, request.value, request.until)
    return True


def show(db: sqlite3.Connection, room: str, name: str, *, now: int) -> str | None:
    row = db.execute(_KEPT, (room, name, now)).fetchone()
    return None if row is None else str(row[0])


def show_all(db: sqlite3.Connection, room: str, *, now: int) -> dict[str, str]:
    return dict(db.execute(_ALL, (room, now)).fetchall())


def forget(tx: Transaction, room: str, name: str) -> bool:
    """Delete a record; return whether there was one that had not expired."""
    was_there = show(tx.db, room, name, now=tx.now) is not None
    tx.run(_FORGET, room, name)
    return was_there


def note(tx: Transaction, act: AuditEntry) -> int:
    """Append to the audit log; the oldest of its ring are dropped."""
    tx.run(_NOTE, tx.now, as_json(act), act.ring)
    tx.run(_TRIM, act.ring, RINGS[act.ring])
    return int(tx.one("SELECT max(id) FROM acts"))


def acts(
    db: sqlite3.Connection, limit: int = 50, cursor: str | None = None
) -> AuditPage:
    before = read_act_cursor(cursor)
    # One more than the limit, to see whether there are more.
    last = _NEWEST if before is None else before
    rows = db.execute(_ACTS, (last, limit + 1)).fetchall()
    found = [
        msgspec.structs.replace(_decode(text), id=number, at=at)
        for number, at, text in rows
    ]
    return AuditPage.of(found, limit)
