"""
Unique keys: a duplicate is refused while an unfinished job of its type holds the key.

A key is one row, held by one job: while the job is unfinished without end, or until its
``unique_at_most`` is over; then (or once it has started, if it asks for that) until its
``unique_for`` is over.  The row alone shows whether the key is free.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.sqlite.verb_transaction import Transaction, as_json
from kue.store.values import Added

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kue.store.sqlite.rows import JobRow, StateRow

_HOLDER = """
SELECT job_id, created_at FROM uniques LEFT JOIN jobs ON jobs.id = job_id
WHERE uniques.type = ? AND key = ? AND (until IS NULL OR until > ?)
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


def holder_of(tx: Transaction, type: str, key: str) -> Added | None:
    """Return the job that holds the key, as the answer to a duplicate; None if free."""
    row = tx.db.execute(_HOLDER, (type, key, tx.now)).fetchone()
    if row is None:
        return None
    job_id, created_at = row
    # A job of this very call is not written yet.
    return Added(job_id, False, tx.now if created_at is None else created_at)


def take(
    tx: Transaction, type: str, key: str, job_id: int, *, until: int | None = None
) -> None:
    """Give the key to a job until it ends, or at most (one that ended) *until* then."""
    tx.run(_TAKE, type, key, job_id, until)


def until_of(created_at: int, at_most: int) -> int | None:
    """Return until when an unfinished job holds its key at most; None for no limit."""
    return created_at + at_most if at_most else None


def release(tx: Transaction, rows: Iterable[JobRow | StateRow]) -> None:
    """Free the keys of jobs that ended, or (some) started; if time is left, later."""
    kept: list[tuple[str, str | None, int, int]] = []
    freed: list[JobRow | StateRow] = []
    for row in rows:
        until = row.created_at + row.unique_for if row.unique_for else 0
        if until > tx.now:
            kept.append((row.type, row.unique_key, row.id, until))
        else:
            freed.append(row)
    if kept:
        tx.run(_KEEP, as_json(kept))
    free(tx, freed)


def free(tx: Transaction, rows: Sequence[JobRow | StateRow]) -> None:
    """Free the keys of jobs at once."""
    if rows:
        keys = [(row.type, row.unique_key, row.id) for row in rows]
        tx.run(_FREE, as_json(keys))
