"""Unused types: those without jobs are forgotten after a day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.sqlite.transaction import as_json

if TYPE_CHECKING:
    from kue.store.sqlite.transaction import Transaction

#: The most types forgotten in one pass.
MAX_FORGOTTEN = 500
_DAY = 24
#: Recent activity is in hours, or in minutes that are not yet in an hour.
_IDLE = """
SELECT name FROM types
WHERE NOT EXISTS (SELECT 1 FROM counts WHERE type = name AND n > 0)
  AND name NOT IN (SELECT type FROM hours WHERE hour >= ?1 - ?2)
  AND name NOT IN (SELECT type FROM stats WHERE minute >= ?1 * 60 - 60)
  AND name NOT IN (SELECT type FROM limits)
  AND name NOT IN (SELECT type FROM pauses)
  AND name NOT IN (
    SELECT schedule->>'$.draft.type' FROM schedules WHERE json_valid(schedule))
LIMIT ?3
"""
_FORGET = "DELETE FROM types WHERE name IN (SELECT value FROM json_each(?))"
_FORGET_COUNTS = "DELETE FROM counts WHERE type IN (SELECT value FROM json_each(?))"


def forget_idle(tx: Transaction, hour: int) -> int:
    """
    Forget types without jobs and without activity for a day; return how many.

    Reads the hours of a day, and deletes at most MAX_FORGOTTEN types.
    """
    rows = tx.db.execute(_IDLE, (hour, _DAY, MAX_FORGOTTEN)).fetchall()
    if rows:
        names = as_json([row[0] for row in rows])
        tx.run(_FORGET, names)
        tx.run(_FORGET_COUNTS, names)
    return len(rows)
