"""Types that nobody uses any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.sqlite.transaction import as_json

if TYPE_CHECKING:
    from kue.store.sqlite.transaction import Transaction

#: Types forgotten in one pass at most.
MAX_FORGOTTEN = 500
_DAY = 24
#: What happened lately stands in hours, or in minutes that are in no hour yet.
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


def forget_idle(turn: Transaction, hour: int) -> int:
    """
    Forget types without jobs to which nothing happened for a day; return how many.

    Reads the hours of a day, and deletes at most MAX_FORGOTTEN types.
    """
    rows = turn.db.execute(_IDLE, (hour, _DAY, MAX_FORGOTTEN)).fetchall()
    if rows:
        names = as_json([row[0] for row in rows])
        turn.run(_FORGET, names)
        turn.run(_FORGET_COUNTS, names)
    return len(rows)
