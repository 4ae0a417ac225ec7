"""
What holds waiting jobs back: pauses, concurrency, rates, and limits on groups.

A type's limits decide how many of its jobs may start now (its `TypeLimits`).  A job
over its group's limit is marked ``held`` and leaves the index that claims read, so
that nobody looks at it again before a run of its group ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.store.sqlite.transaction import Transaction, as_json
from kue.store.values import Limits, Pause

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

#: The name of the pause of every type: no type is called so.
EVERY = ""
#: Held jobs let go in one transaction when a limit is taken away, or groups looked at.
LET_GO = 2000
GROUPS = 200

_PAUSES = """
SELECT type, at, reason, who, until FROM pauses
WHERE until IS NULL OR until > ? ORDER BY type
"""
_LIMITS = "SELECT type, limits, level, filled_at FROM limits"
_ACTIVE = "SELECT n FROM counts WHERE type = ? AND state = 'active' AND own = 0"
_SPEND = "UPDATE limits SET level = ?, filled_at = ? WHERE type = ?"
_SET = """
INSERT INTO limits (type, limits, level, filled_at) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET limits = excluded.limits, level = excluded.level,
    filled_at = excluded.filled_at
"""
_ACTIVE_IN_GROUP = """
SELECT count(*) FROM jobs INDEXED BY jobs_active_in_group
WHERE state = 'active' AND group_key IS NOT NULL AND type = ? AND group_key = ?
"""
_HOLD = "UPDATE jobs SET held = 1 WHERE id IN (SELECT value FROM json_each(?))"
_LET_GO_IN_GROUP = """
UPDATE jobs SET held = 0 WHERE id IN (
    SELECT id FROM jobs INDEXED BY jobs_held_in_group
    WHERE state = 'waiting' AND held = 1 AND type = ? AND group_key = ?
    ORDER BY priority, id LIMIT ?)
"""
_LET_GO = """
UPDATE jobs SET held = 0 WHERE id IN (
    SELECT id FROM jobs INDEXED BY jobs_held
    WHERE state = 'waiting' AND held = 1 AND type = ? ORDER BY priority, id LIMIT ?)
"""
_HELD_GROUPS = """
SELECT DISTINCT group_key FROM jobs INDEXED BY jobs_held_in_group
WHERE state = 'waiting' AND held = 1 AND type = ? AND group_key > ?
ORDER BY group_key LIMIT ?
"""
_HELD_TYPES = """
SELECT name FROM types WHERE EXISTS (
    SELECT 1 FROM jobs INDEXED BY jobs_held
    WHERE state = 'waiting' AND held = 1 AND type = name)
"""
_HAS_READY = """
SELECT EXISTS (SELECT 1 FROM jobs INDEXED BY jobs_ready
               WHERE state = 'waiting' AND held = 0 AND type = ?)
"""
_NEXT_DUE = """
SELECT at FROM jobs INDEXED BY jobs_delayed
WHERE state = 'delayed' AND type = ? ORDER BY at LIMIT 1
"""

_decode = msgspec.json.Decoder(Limits).decode


class TokenBucket(NamedTuple):
    """
    Starts saved up under a rate limit, counted in 1/*per* of a start.

    In these units *rate* flow in every millisecond: whole numbers, no rounding.
    """

    rate: int
    per: int
    level: int
    filled_at: int

    def at(self, now: int) -> TokenBucket:
        """Return the bucket as time has filled it; a clock that went back adds none."""
        inflow = max(0, now - self.filled_at) * self.rate
        level = min(self.level + inflow, self.rate * self.per)
        return self._replace(level=level, filled_at=now)

    @property
    def starts(self) -> int:
        return self.level // self.per

    @property
    def opens_at(self) -> int:
        """When there is enough for one start."""
        return self.filled_at + -(-max(0, self.per - self.level) // self.rate)


class TypeLimits(msgspec.Struct):
    """What holds jobs of one type back at one moment."""

    type: str
    now: int
    #: What pauses it, and when that ends by itself.
    pause: Pause | None = None
    paused_until: int | None = None
    #: Runs that may begin before one must end; None for any number.
    slots: int | None = None
    bucket: TokenBucket | None = None
    per_key: int | None = None

    @property
    def is_paused(self) -> bool:
        return self.pause is not None

    def allowance(self, limit: int) -> int:
        """Return how many of *limit* jobs may start."""
        if self.is_paused:
            return 0
        if self.slots is not None:
            limit = min(limit, self.slots)
        return limit if self.bucket is None else min(limit, self.bucket.starts)

    @property
    def opens_at(self) -> int | None:
        """When it is open: now, later, or not by time alone."""
        if self.is_paused:
            return self.paused_until
        if self.slots == 0:
            return None
        if self.bucket is not None and not self.bucket.starts:
            return self.bucket.opens_at
        return self.now


def pauses(db: sqlite3.Connection, now: int) -> list[Pause]:
    """Return the pauses in force, that of every type first, then by type."""
    rows = db.execute(_PAUSES, (now,)).fetchall()
    return [Pause(type or None, *rest) for type, *rest in rows]


def limits(db: sqlite3.Connection) -> dict[str, Limits]:
    """Return the limits in force, by type."""
    return {row[0]: _decode(row[1]) for row in db.execute(_LIMITS).fetchall()}


def gates_of(
    db: sqlite3.Connection, types: Iterable[str], now: int
) -> list[TypeLimits]:
    """Return what holds back each of *types*."""
    paused = {pause.type or EVERY: pause for pause in pauses(db, now)}
    limited = {row[0]: row[1:] for row in db.execute(_LIMITS).fetchall()}
    found = []
    for type in dict.fromkeys(types):
        gate = TypeLimits(type, now)
        if type in limited:
            _limit(db, gate, *limited[type])
        _pause(gate, [paused[name] for name in (EVERY, type) if name in paused])
        found.append(gate)
    return found


def _limit(
    db: sqlite3.Connection, gate: TypeLimits, text: str, level: int, filled_at: int
) -> None:
    rule = _decode(text)
    gate.per_key = rule.per_key
    if rule.rate is not None:
        gate.bucket = TokenBucket(rule.rate, rule.per, level, filled_at).at(gate.now)
    if rule.concurrency is not None:
        row = db.execute(_ACTIVE, (gate.type,)).fetchone()
        gate.slots = max(0, rule.concurrency - (row[0] if row else 0))


def _pause(gate: TypeLimits, found: Sequence[Pause]) -> None:
    if not found:
        return
    gate.pause = found[0]
    # Both must end: the pause of every type and that of this one.
    ends = [pause.until for pause in found if pause.until is not None]
    gate.paused_until = max(ends) if len(ends) == len(found) else None


def outlook(db: sqlite3.Connection, types: Iterable[str], now: int) -> dict[str, int]:
    """Return when there may be work of *types*, without those that time won't help."""
    moments = {
        gate.type: next_chance(db, gate, is_hungry=True)
        for gate in gates_of(db, types, now)
    }
    return {type: at for type, at in moments.items() if at is not None}


def next_chance(
    db: sqlite3.Connection, gate: TypeLimits, *, is_hungry: bool = False
) -> int | None:
    """
    Return when time alone may let a job of the gate's type start.

    Jobs that could start now count only for who *is_hungry*; others left them waiting.
    """
    opens_at = gate.opens_at
    if opens_at is None:
        return None
    if (is_hungry or opens_at > gate.now) and _has_ready(db, gate.type):
        return opens_at
    row = db.execute(_NEXT_DUE, (gate.type,)).fetchone()
    return None if row is None else max(row[0], opens_at)


def _has_ready(db: sqlite3.Connection, type: str) -> bool:
    return bool(db.execute(_HAS_READY, (type,)).fetchone()[0])


def spend(turn: Transaction, gate: TypeLimits, starts: int) -> None:
    """Take what *starts* runs cost out of the gate."""
    if gate.slots is not None:
        gate.slots -= starts
    if gate.bucket is not None:
        level = gate.bucket.level - starts * gate.bucket.per
        gate.bucket = gate.bucket._replace(level=level)
        turn.run(_SPEND, level, turn.now, gate.type)


def active_in_group(turn: Transaction, type: str, group: str) -> int:
    """Return how many jobs of a group run."""
    found: int = turn.one(_ACTIVE_IN_GROUP, type, group)
    return found


def hold(turn: Transaction, ids: Sequence[int]) -> None:
    """Set jobs aside until a run of their group ends."""
    if ids:
        turn.run(_HOLD, as_json(ids))


def set_limits(turn: Transaction, type: str, rule: Limits | None) -> None:
    """Write a type's limits; what is saved up under the same rate stays saved up."""
    turn.ready.add(type)
    if rule is None:
        turn.run("DELETE FROM limits WHERE type = ?", type)
        return
    level, filled_at = (rule.rate or 0) * rule.per, turn.now
    row = turn.db.execute(f"{_LIMITS} WHERE type = ?", (type,)).fetchone()
    if row is not None:
        old = _decode(row[1])
        if (old.rate, old.per) == (rule.rate, rule.per):
            level, filled_at = row[2:]
    turn.run(_SET, type, as_json(rule), level, filled_at)


def let_go(turn: Transaction, type: str, after: str = "") -> str | None:
    """
    Let go what a type's limit does not hold (any more), a bounded part at a time.

    Returns where to go on, None at the end.
    """
    rule = limits(turn.db).get(type)
    if rule is None or rule.per_key is None:
        freed = turn.run(_LET_GO, type, LET_GO)
        turn.ready.add(type)
        return after if freed == LET_GO else None
    rows = turn.db.execute(_HELD_GROUPS, (type, after, GROUPS)).fetchall()
    for (group,) in rows:
        _refill(turn, type, group, rule.per_key)
    return rows[-1][0] if len(rows) == GROUPS else None


def let_go_unlimited(turn: Transaction) -> bool:
    """Let go jobs held by a limit that is gone; tell whether there are more."""
    more = False
    rules = limits(turn.db)
    for (type,) in turn.db.execute(_HELD_TYPES).fetchall():
        rule = rules.get(type)
        if rule is None or rule.per_key is None:
            more |= let_go(turn, type) is not None
    return more


def refill(turn: Transaction) -> None:
    """Give slots that this turn freed to those held back, the best first."""
    if not turn.groups and not turn.freed:
        return
    rules = limits(turn.db)
    turn.ready |= turn.freed & rules.keys()
    for type, group in turn.groups:
        rule = rules.get(type)
        if rule is not None and rule.per_key is not None:
            _refill(turn, type, group, rule.per_key)
    turn.groups.clear()
    turn.freed.clear()


def _refill(turn: Transaction, type: str, group: str, per_key: int) -> None:
    # Those who are ready already do not count: one of the held may be better, and the
    # next claim sets the worse aside.
    free = per_key - active_in_group(turn, type, group)
    if free > 0 and turn.run(_LET_GO_IN_GROUP, type, group, free):
        turn.ready.add(type)
