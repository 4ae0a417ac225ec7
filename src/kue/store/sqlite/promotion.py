"""Promotion: delayed jobs that are due become waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.events import Kind
from kue.model.job import State
from kue.store.sqlite import ranking
from kue.store.sqlite.verb_transaction import Transaction, entered

if TYPE_CHECKING:
    from collections.abc import Iterable

_IS_DUE = """
SELECT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_delayed
               WHERE state = 'delayed' AND type = ? AND at <= ?)
"""
_DUE_TYPES = """
SELECT name FROM types WHERE EXISTS (
    SELECT 1 FROM jobs INDEXED BY jobs_delayed
    WHERE state = 'delayed' AND type = name AND at <= ?)
"""
_DUE = """
SELECT id FROM jobs INDEXED BY jobs_delayed
WHERE state = 'delayed' AND type = ? AND at <= ? ORDER BY at, id LIMIT ?
"""
_PROMOTE = f"UPDATE jobs SET state = 'waiting', at = NULL WHERE id IN ({_DUE})"


def promote(tx: Transaction, types: Iterable[str], limit: int) -> int:
    """Make due jobs of *types* ready, up to *limit* of each; return how many."""
    return sum(_promote(tx, type, limit) for type in dict.fromkeys(types))


def promote_all(tx: Transaction, limit: int) -> tuple[int, bool]:
    """
    Make due jobs ready, about *limit* of them, shared among the types that have any.

    Returns how many, and whether there are more.
    """
    types = [row[0] for row in tx.db.execute(_DUE_TYPES, (tx.now,)).fetchall()]
    if not types:
        return 0, False
    share = min(limit, max(1, limit // len(types)))
    promoted = promote(tx, types, share)
    return promoted, any(tx.one(_IS_DUE, type, tx.now) for type in types)


def _promote(tx: Transaction, type: str, limit: int) -> int:
    if not tx.one(_IS_DUE, type, tx.now):
        return 0
    if ranking.rule_of(tx, type) is not None:
        due = tx.db.execute(_DUE, (type, tx.now, limit)).fetchall()
        ranking.enter(tx, type, [job_id for (job_id,) in due])
    if tx.has_subscribers:
        rows = tx.db.execute(
            f"{_PROMOTE} RETURNING id, attempts", (type, tx.now, limit)
        ).fetchall()
        for job_id, attempts in rows:
            tx.publish(Kind.PROMOTION, job_id, type, attempts)
        promoted = len(rows)
    else:
        promoted = tx.run(_PROMOTE, type, tx.now, limit)
    tx.moved(type, State.DELAYED, State.WAITING, promoted)
    entered(tx, type, State.WAITING)
    return promoted
