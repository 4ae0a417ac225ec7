"""
Unique keys: at most one unfinished job of a type has one.

A key is one row, held by one job: without end while the job is unfinished, then until
its ``unique_for`` is over.  Whether it is free can be read off the row alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.sqlite.transaction import Transaction, as_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kue.store.sqlite.rows import StateRow

_HOLDER = """
SELECT job_id FROM uniques
WHERE type = ? AND key = ? AND (until IS NULL OR until > ?)
"""
_TAKE = """
INSERT INTO uniques (type, key, job_id, until) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET job_id = excluded.job_id, until = excluded.until
"""
_KEEP = """
UPDATE uniques SET until = new.value->>3 FROM json_each(?) AS new
WHERE uniques.type = new.value->>0 AND uniques.key = new.value->>1
  AND uniques.job_id = new.value->>2
"""
_FREE = """
DELETE FROM uniques WHERE (type, key, job_id) IN
    (SELECT value->>0, value->>1, value->>2 FROM json_each(?))
"""
_FORGET = "DELETE FROM uniques WHERE until <= ?"


def holder(turn: Transaction, type: str, key: str) -> int | None:
    """Return the job that has the key, None when it is free."""
    found: int | None = turn.one(_HOLDER, type, key, turn.now)
    return found


def take(
    turn: Transaction, type: str, key: str, job_id: int, *, until: int | None = None
) -> None:
    """Give the key to a job, until it ends or (for one that has ended) *until* then."""
    turn.run(_TAKE, type, key, job_id, until)


def release(turn: Transaction, slips: Iterable[StateRow]) -> None:
    """Free the keys of jobs that ended; those whose ``unique_for`` lasts, later."""
    kept: list[tuple[str, str | None, int, int]] = []
    freed: list[StateRow] = []
    for slip in slips:
        until = slip.created_at + slip.unique_for
        if until > turn.now:
            kept.append((slip.type, slip.unique_key, slip.id, until))
        else:
            freed.append(slip)
    if kept:
        turn.run(_KEEP, as_json(kept))
    free(turn, freed)


def free(turn: Transaction, slips: Sequence[StateRow]) -> None:
    """Free the keys of jobs at once."""
    if slips:
        rows = [(slip.type, slip.unique_key, slip.id) for slip in slips]
        turn.run(_FREE, as_json(rows))


def forget(turn: Transaction) -> None:
    """Delete keys that hold nobody back any more."""
    turn.run(_FORGET, turn.now)
