"""
Ranks: the order in which the jobs of a type start.

By default a job's rank follows from its priority and id, and never changes.  In a fair
type, and in one with ageing, a job gets its rank when it begins to wait; see
``store/redis/lua/lib/rank.lua``, which does the same.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from kue.model.job import State
from kue.store.sqlite.verb_transaction import Transaction, as_json
from kue.store.values import Limits
from kue.store.waiting_order import LEVEL, WaitingOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kue.store.sqlite.rows import StateRow

#: Virtual time of one job of weight 1: many weights divide it.
TURN = 60
#: The most jobs that one transaction gives another rank.
MAX_REORDERED = 2000

_LIMITS = "SELECT limits FROM limits WHERE type = ?"
_FIRST = """
SELECT min(rank) FROM jobs INDEXED BY jobs_ready
WHERE state = 'waiting' AND held = 0 AND type = ? AND rank BETWEEN ? AND ?
"""
_LAST_TURN = "SELECT max(rank) FROM turns WHERE type = ? AND rank BETWEEN ? AND ?"
_TURN = "SELECT rank FROM turns WHERE type = ? AND member = ?"
_FORGET = "DELETE FROM turns WHERE type = ? AND rank BETWEEN ? AND ?"
_WRITE = """
REPLACE INTO turns (type, member, rank)
SELECT ?, key, value FROM json_each(?)
"""
_ENTERING = """
SELECT id, priority, group_key, attempts > 0 OR stalls > 0 FROM jobs
WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id
"""
_SET = """
UPDATE jobs SET rank = ranked.value FROM json_each(?) AS ranked
WHERE jobs.id = CAST(ranked.key AS INTEGER)
"""
_SHIFT = "UPDATE jobs SET rank = rank + ? WHERE id = ?"
_IDS = """
SELECT id FROM jobs INDEXED BY jobs_by_type WHERE type = ? AND id > ?
ORDER BY id LIMIT ?
"""
_REORDER = """
UPDATE jobs SET rank = CASE WHEN ?1 IS NULL THEN priority * ?2 + id
                            ELSE 1000 * (created_at + priority * ?1) END
WHERE id IN (SELECT value FROM json_each(?3))
"""

_decode = msgspec.json.Decoder(Limits).decode


def rule_of(tx: Transaction, type: str) -> Limits | None:
    """Return the cap and order of a type; None if it has neither."""
    if type not in tx.rules:
        text, rule = tx.one(_LIMITS, type), None
        # Jobs can be added beside a damaged rule; claims report it.
        with suppress(ValueError):
            rule = None if text is None else _decode(text)
        if rule and not (rule.max_waiting or rule.fair or rule.ageing):
            rule = None
        tx.rules[type] = rule
    return tx.rules[type]


def is_ordered(tx: Transaction, type: str) -> bool:
    """Return whether ranks of the type are given when jobs begin to wait."""
    rule = rule_of(tx, type)
    return rule is not None and WaitingOrder.of(rule).is_given


class Turns:
    """The virtual time of one priority of a fair type, and the turns of its groups."""

    def __init__(self, tx: Transaction, type: str, priority: int) -> None:
        self._tx = tx
        self._type = type
        self._priority = priority
        self._first = priority * LEVEL
        self._last = self._first + LEVEL - 1
        ends = (type, self._first, self._last)
        # Of the first job that waits; if none does, all turns that were given are over.
        head = tx.one(_FIRST, *ends)
        if head is None:
            head = tx.one(_LAST_TURN, *ends)
        saved = tx.one(_TURN, type, str(priority))
        self.now: int = max(self._first, head or self._first, saved or self._first)
        self._next: dict[str, int] = {}

    def take(self, group: str | None, weight: int, *, ran_before: bool) -> int:
        """
        Return the rank of the next job of a group.

        One that ran before goes first, but its group pays for it with a turn.
        """
        member = f"{self._priority}:{group or ''}"
        at = self._next.get(member)
        if at is None:
            at = self._tx.one(_TURN, self._type, member) or self.now
        at = max(at, self.now)
        self._next[member] = min(at + TURN // weight, self._last)
        return self.now if ran_before else at

    def write(self) -> None:
        """Write the turns; a group whose turn has come is as good as unknown."""
        turns = {str(self._priority): self.now, **self._next}
        self._tx.run(_FORGET, self._type, self._first, self.now)
        self._tx.run(_WRITE, self._type, as_json(turns))


class Ranks:
    """Ranks of jobs that begin to wait together, in the order in which they do."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._turns: dict[tuple[str, int], Turns] = {}

    def next(
        self, type: str, priority: int, group: str | None, *, ran_before: bool = False
    ) -> int | None:
        """Return the rank of a job; None if it follows from priority and id."""
        rule = rule_of(self._tx, type)
        if rule is not None and rule.ageing is not None:
            return 1000 * (self._tx.now + priority * rule.ageing)
        if rule is None or not rule.fair:
            return None
        turns = self._turns.get((type, priority))
        if turns is None:
            turns = self._turns[type, priority] = Turns(self._tx, type, priority)
        weight = rule.weights.get(group or "", 1)
        return turns.take(group, weight, ran_before=ran_before)

    def write(self) -> None:
        for turns in self._turns.values():
            turns.write()
        self._turns.clear()


def enter(
    tx: Transaction, type: str, ids: Sequence[int], *, ran_before: bool | None = None
) -> None:
    """
    Give jobs that begin to wait their ranks, where these do not follow from the job.

    Whether they *ran before* is read from their attempts, unless it is given.
    """
    if not is_ordered(tx, type):
        return
    rows = {row[0]: row[1:] for row in tx.db.execute(_ENTERING, (as_json(ids),))}
    ranks, ranked = Ranks(tx), {}
    for job_id in ids:
        priority, group, ran = rows[job_id]
        ran = bool(ran) if ran_before is None else ran_before
        rank = ranks.next(type, priority, group, ran_before=ran)
        assert rank is not None
        ranked[job_id] = rank
    write_ranks(tx, ranked)
    ranks.write()


def write_ranks(tx: Transaction, ranks: Mapping[int, int]) -> None:
    tx.run(_SET, as_json(ranks))


def change_priority(tx: Transaction, row: StateRow, old: int, new: int) -> None:
    """Give a job the rank of another priority; the job has that already."""
    rule = rule_of(tx, row.type)
    if rule is not None and rule.ageing is not None and row.state == State.WAITING:
        tx.run(_SHIFT, 1000 * (new - old) * rule.ageing, row.id)
    elif row.state == State.WAITING and is_ordered(tx, row.type):
        enter(tx, row.type, [row.id])
    else:
        write_ranks(tx, {row.id: new * LEVEL + row.id})


def reorder(tx: Transaction, type: str, after: int) -> int | None:
    """
    Give jobs the ranks that a changed order asks for, a bounded part at a time.

    With ageing they count from the creation of the job.  Returns the id after which to
    continue, None at the end.
    """
    rule = rule_of(tx, type)
    ids = [row[0] for row in tx.db.execute(_IDS, (type, after, MAX_REORDERED))]
    tx.run(_REORDER, rule.ageing if rule else None, LEVEL, as_json(ids))
    return ids[-1] if len(ids) == MAX_REORDERED else None
