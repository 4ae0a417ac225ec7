"""Queue caps: how many jobs of a type may wait, and what happens to those above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.job import Cancelled
from kue.store.sqlite import transitions
from kue.store.sqlite.ranking import rule_of
from kue.store.sqlite.rows import state_rows_of
from kue.store.values import WhenFull

if TYPE_CHECKING:
    from kue.store.sqlite.verb_transaction import Transaction

#: The most jobs that one transaction drops; the next one continues.
MAX_DROPPED = 1000

_WAITING = "SELECT n FROM counts WHERE type = ? AND state = 'waiting' AND own = 0"
_OLDEST = """
SELECT id FROM jobs INDEXED BY {index}
WHERE state = 'waiting' AND held = {held} AND type = ?1
AND rank >= (SELECT max(rank) >> 41 << 41 FROM jobs INDEXED BY {index}
             WHERE state = 'waiting' AND held = {held} AND type = ?1)
ORDER BY rank, id LIMIT ?2
"""
#: Jobs that a limit holds back are dropped only when no others wait.
_OLDEST_FIRST = [
    _OLDEST.format(held=held, index=index)
    for held, index in enumerate(("jobs_ready", "jobs_held", "jobs_limited"))
]


class Room:
    """How many more jobs of each type may wait, while some are added."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._left: dict[str, int | None] = {}

    def take(self, type: str) -> bool:
        """Take the place of one job; return whether there was one."""
        if type not in self._left:
            self._left[type] = _room(self._tx, type)
        left = self._left[type]
        if left is None:
            return True
        self._left[type] = left - 1
        return left > 0 or _drops(self._tx, type)


def drop_oldest(tx: Transaction, type: str) -> None:
    """Cancel the oldest jobs of the lowest priority that are over the cap of a type."""
    rule = rule_of(tx, type)
    if rule is None or not _drops(tx, type):
        return
    ending = Cancelled(
        f"dropped: {rule.max_waiting} jobs of its type wait, as many as its cap allows"
    )
    over = min(-(_room(tx, type) or 0), MAX_DROPPED)
    for sql in _OLDEST_FIRST:
        while over > 0:
            ids = [row[0] for row in tx.db.execute(sql, (type, over))]
            if not ids:
                break
            rows = state_rows_of(tx.db, ids).values()
            transitions.end(tx, [(row, ending) for row in rows])
            over -= len(ids)


def _drops(tx: Transaction, type: str) -> bool:
    rule = rule_of(tx, type)
    return rule is not None and rule.when_full is WhenFull.DROP_OLDEST


def _room(tx: Transaction, type: str) -> int | None:
    """Return how many more jobs may wait; None for any number."""
    rule = rule_of(tx, type)
    if rule is None or rule.max_waiting is None:
        return None
    waiting = (tx.one(_WAITING, type) or 0) + tx.noted(type, "waiting")
    return int(rule.max_waiting - waiting)
