"""Promotion: delayed jobs whose time has come become ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.events import Kind
from kue.model.job import State
from kue.store.sqlite.transaction import Transaction, entered

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
_PROMOTE = """
UPDATE jobs SET state = 'waiting', at = NULL WHERE id IN (
    SELECT id FROM jobs INDEXED BY jobs_delayed
    WHERE state = 'delayed' AND type = ? AND at <= ? ORDER BY at, id LIMIT ?)
"""


def promote(turn: Transaction, types: Iterable[str], limit: int) -> int:
    """Make due jobs of *types* ready, up to *limit* of each; return how many."""
    return sum(_promote(turn, type, limit) for type in dict.fromkeys(types))


def promote_all(turn: Transaction, limit: int) -> tuple[int, bool]:
    """
    Make due jobs ready, about *limit* of them, shared among the types that have any.

    Returns how many, and whether there are more.
    """
    types = [row[0] for row in turn.db.execute(_DUE_TYPES, (turn.now,)).fetchall()]
    if not types:
        return 0, False
    share = min(limit, max(1, limit // len(types)))
    promoted = promote(turn, types, share)
    return promoted, any(turn.one(_IS_DUE, type, turn.now) for type in types)


def _promote(turn: Transaction, type: str, limit: int) -> int:
    if not turn.one(_IS_DUE, type, turn.now):
        return 0
    if turn.is_heard:
        rows = turn.db.execute(
            f"{_PROMOTE} RETURNING id, attempts", (type, turn.now, limit)
        ).fetchall()
        for job_id, attempts in rows:
            turn.tell(Kind.PROMOTION, job_id, type, attempts)
        promoted = len(rows)
    else:
        promoted = turn.run(_PROMOTE, type, turn.now, limit)
    turn.moved(type, State.DELAYED, State.WAITING, promoted)
    entered(turn, type, State.WAITING)
    return promoted
