"""
Limits that hold waiting jobs back: pauses, rate limits, concurrency, group limits.

A type's limits decide how many of its jobs may start now (its `TypeLimits`).  A job
over its group's limit is marked ``held`` and leaves the index that claims read, so
that it is not read again before a run of its group ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.store.sqlite.verb_transaction import Transaction, as_json
from kue.store.sqlite.verbs import named_limits
from kue.store.values import Limits, Pause, PauseRequest
from kue.store.waiting_order import LEVEL

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

#: The name of the pause of every type: no type has this name.
EVERY = ""
#: The most held jobs released in one transaction when a limit is removed, and the most
#: groups checked.
MAX_RELEASED = 2000
MAX_GROUPS = 200

_PAUSES = """
SELECT type, at, reason, who, until FROM pauses
WHERE until IS NULL OR until > ? ORDER BY type
"""
_WORKER_PAUSES = """
SELECT NULL, at, reason, who, until, worker FROM worker_pauses
WHERE (until IS NULL OR until > ?1) AND (?2 IS NULL OR worker = ?2) ORDER BY worker
"""
_PAUSE = "REPLACE INTO {} ({}, at, reason, who, until) VALUES (?, ?, ?, ?, ?)"
_RESUME = "DELETE FROM {} WHERE {} = ? RETURNING until"
_LIMITS = "SELECT type, limits, level, filled_at FROM limits"
_ACTIVE = "SELECT n FROM counts WHERE type = ? AND state = 'active' AND own = 0"
_SPEND = "UPDATE limits SET level = ?, filled_at = ? WHERE type = ?"
_SET = "REPLACE INTO limits (type, limits, level, filled_at) VALUES (?, ?, ?, ?)"
_ACTIVE_IN_GROUP = """
SELECT count(*) FROM jobs INDEXED BY jobs_active_in_group
WHERE state = 'active' AND group_key IS NOT NULL AND type = ? AND group_key = ?
"""
_RELEASE_IN_GROUP = """
UPDATE jobs SET held = 0 WHERE id IN (
    SELECT id FROM jobs INDEXED BY jobs_held_in_group
    WHERE state = 'waiting' AND held = 1 AND type = ? AND group_key = ?
    ORDER BY rank, id LIMIT ?)
"""
_RELEASE = """
UPDATE jobs SET held = 0 WHERE id IN (
    SELECT id FROM jobs INDEXED BY jobs_held
    WHERE state = 'waiting' AND held = 1 AND type = ? ORDER BY rank, id LIMIT ?)
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
#: When a delayed job is due, or a rate lets a held job start, whichever is first.
_NEXT_DUE = """
SELECT min(at) FROM (
    SELECT min(at) AS at FROM jobs INDEXED BY jobs_delayed
    WHERE state = 'delayed' AND type = ?1
    UNION ALL SELECT min(at) FROM limit_openings WHERE type = ?1)
"""

_decode = msgspec.json.Decoder(Limits).decode


class TokenBucket(NamedTuple):
    """
    Token bucket of a rate limit; one start costs *per* tokens.

    Every millisecond adds *rate* tokens: whole numbers, no rounding.
    """

    rate: int
    per: int
    level: int
    filled_at: int

    def at(self, now: int) -> TokenBucket:
        """Return the bucket as filled by *now*; a clock that was set back adds none."""
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
    """Limits and pause of one type at one moment."""

    type: str
    now: int
    #: Its pause, and when all pauses of the type end by themselves.
    pause: Pause | None = None
    paused_until: int | None = None
    #: How many runs may begin before one must end; None for any number.
    slots: int | None = None
    bucket: TokenBucket | None = None
    per_key: int | None = None
    fair: bool = False
    ageing: int | None = None

    def beside_others(self, rank: int, job_id: int) -> float:
        """
        Return what a rank is worth beside those of other types.

        With ageing that is the priority that was reached by now, in a fair type
        priority and age.
        """
        if self.ageing is not None:
            return (rank / 1000 - self.now) / self.ageing * LEVEL
        return rank // LEVEL * LEVEL + job_id if self.fair else rank

    def allowance(self, limit: int) -> int:
        """Return how many of *limit* jobs may start."""
        if self.pause is not None:
            return 0
        if self.slots is not None:
            limit = min(limit, self.slots)
        return limit if self.bucket is None else min(limit, self.bucket.starts)

    @property
    def opens_at(self) -> int | None:
        """When a job may start: now, later, or None if time alone does not help."""
        if self.pause is not None:
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


def worker_pauses(
    db: sqlite3.Connection, now: int, worker: str | None = None
) -> list[Pause]:
    """Return the pauses in force of one worker or (None) of all, by name."""
    rows = db.execute(_WORKER_PAUSES, (now, worker)).fetchall()
    return [Pause(*row) for row in rows]


def paused(db: sqlite3.Connection, *, now: int) -> list[Pause]:
    return pauses(db, now) + worker_pauses(db, now)


def pause(tx: Transaction, request: PauseRequest) -> None:
    *place, name = _place_of(request.type, request.worker)
    values = (name, tx.now, request.reason, request.by, request.until)
    tx.run(_PAUSE.format(*place), *values)


def resume(
    tx: Transaction, type: str | None = None, *, worker: str | None = None
) -> bool:
    *place, name = _place_of(type, worker)
    ended = tx.db.execute(_RESUME.format(*place), (name,)).fetchall()
    if worker is None:
        tx.ready.add(name)
    return any(until is None or until > tx.now for (until,) in ended)


def _place_of(type: str | None, worker: str | None) -> tuple[str, str, str]:
    """Return the table and the column that keep a pause, and its name there."""
    if worker is not None:
        return "worker_pauses", "worker", worker
    return "pauses", "type", EVERY if type is None else type


def end_pauses(tx: Transaction) -> None:
    """Delete pauses that are over, and wake workers that wait for that."""
    ended = tx.db.execute(
        "DELETE FROM pauses WHERE until <= ? RETURNING type", (tx.now,)
    )
    tx.ready |= {type for (type,) in ended.fetchall()}
    tx.run("DELETE FROM worker_pauses WHERE until <= ?", tx.now)


def limits(db: sqlite3.Connection) -> dict[str, Limits]:
    return {row[0]: _decode(row[1]) for row in db.execute(_LIMITS).fetchall()}


def group_limits(db: sqlite3.Connection) -> dict[str, int]:
    """Return how many jobs of a group may run, for each type with such a limit."""
    per_key = {type: rule.per_key for type, rule in limits(db).items()}
    return {type: limit for type, limit in per_key.items() if limit is not None}


def type_limits_of(
    db: sqlite3.Connection, types: Iterable[str], now: int
) -> list[TypeLimits]:
    """Return limits and pause of each of *types*."""
    paused = {pause.type: pause for pause in pauses(db, now)}
    limited = {row[0]: row[1:] for row in db.execute(_LIMITS).fetchall()}
    found = []
    for type in dict.fromkeys(types):
        type_limits = TypeLimits(type, now)
        found.append(type_limits)
        if mine := [paused[name] for name in (None, type) if name in paused]:
            type_limits.pause = mine[0]
            # Both must end: the pause of every type and that of this one.
            ends = [pause.until for pause in mine if pause.until is not None]
            type_limits.paused_until = max(ends) if len(ends) == len(mine) else None
        if type in limited:
            text, level, filled_at = limited[type]
            rule = _decode(text)
            type_limits.per_key = rule.per_key
            type_limits.fair, type_limits.ageing = rule.fair, rule.ageing
            if rule.rate is not None:
                bucket = TokenBucket(rule.rate, rule.per, level, filled_at)
                type_limits.bucket = bucket.at(now)
            if rule.concurrency is not None:
                row = db.execute(_ACTIVE, (type,)).fetchone()
                type_limits.slots = max(0, rule.concurrency - (row[0] if row else 0))
    return found


def next_chances(
    db: sqlite3.Connection, types: Iterable[str], now: int
) -> dict[str, int]:
    """Return when there may be work, by type; without types that time won't help."""
    moments = {
        type_limits.type: next_chance(db, type_limits, include_ready=True)
        for type_limits in type_limits_of(db, types, now)
    }
    return {type: at for type, at in moments.items() if at is not None}


def next_chance(
    db: sqlite3.Connection, type_limits: TypeLimits, *, include_ready: bool = False
) -> int | None:
    """
    Return when time alone may let a job of the type start.

    Jobs that could start now count only with *include_ready*: a claim has just left
    them waiting.
    """
    opens_at = type_limits.opens_at
    if opens_at is None:
        return None
    values = (type_limits.type,)
    if include_ready or opens_at > type_limits.now:
        [has_ready] = db.execute(_HAS_READY, values).fetchone()
        if has_ready:
            return opens_at
    [due] = db.execute(_NEXT_DUE, values).fetchone()
    return None if due is None else max(due, opens_at)


def spend(tx: Transaction, type_limits: TypeLimits, starts: int) -> None:
    """Subtract *starts* runs from slots and token bucket."""
    if type_limits.slots is not None:
        type_limits.slots -= starts
    if type_limits.bucket is not None:
        level = type_limits.bucket.level - starts * type_limits.bucket.per
        type_limits.bucket = type_limits.bucket._replace(level=level)
        tx.run(_SPEND, level, tx.now, type_limits.type)


def active_in_group(db: sqlite3.Connection, type: str, group: str) -> int:
    """Return how many jobs of a group are running."""
    return int(db.execute(_ACTIVE_IN_GROUP, (type, group)).fetchone()[0])


def set_limits(tx: Transaction, type: str, rule: Limits | None) -> bool:
    """
    Write a type's limits; under the same rate the token bucket keeps its level.

    Returns whether `ranking.reorder` must give its jobs other ranks.
    """
    tx.ready.add(type)
    row = tx.db.execute(f"{_LIMITS} WHERE type = ?", (type,)).fetchone()
    old = Limits() if row is None else _decode(row[1])
    if rule is None:
        tx.run("DELETE FROM limits WHERE type = ?", type)
    else:
        level, filled_at = (rule.rate or 0) * rule.per, tx.now
        if row is not None and (old.rate, old.per) == (rule.rate, rule.per):
            level, filled_at = row[2:]
        tx.run(_SET, type, as_json(rule), level, filled_at)
    new = rule or Limits()
    if not new.fair:
        tx.run("DELETE FROM turns WHERE type = ?", type)
    # A fair type goes on with jobs as they are.
    return old.ageing != new.ageing or (old.fair and not new.fair)


def release_held(tx: Transaction, type: str, after: str = "") -> str | None:
    """
    Release jobs that a type's limit no longer holds, a bounded part at a time.

    Returns the group after which to continue, None at the end.
    """
    per_key = group_limits(tx.db).get(type)
    if per_key is None:
        freed = tx.run(_RELEASE, type, MAX_RELEASED)
        tx.ready.add(type)
        return after if freed == MAX_RELEASED else None
    rows = tx.db.execute(_HELD_GROUPS, (type, after, MAX_GROUPS)).fetchall()
    for (group,) in rows:
        _refill(tx, type, group, per_key)
    return rows[-1][0] if len(rows) == MAX_GROUPS else None


def release_unlimited(tx: Transaction) -> bool:
    """Release jobs held by a limit that is gone; return whether there are more."""
    more = False
    limited = group_limits(tx.db)
    for (type,) in tx.db.execute(_HELD_TYPES).fetchall():
        if type not in limited:
            more |= release_held(tx, type) is not None
    return more


def refill(tx: Transaction) -> None:
    """Give slots freed by this transaction to held jobs, the best first."""
    if tx.limits:
        named_limits.refill(tx)
    if not tx.groups and not tx.freed:
        return
    rules = limits(tx.db)
    tx.ready |= tx.freed & rules.keys()
    for type, group in tx.groups:
        rule = rules.get(type)
        if rule is not None and rule.per_key is not None:
            _refill(tx, type, group, rule.per_key)
    tx.groups.clear()
    tx.freed.clear()


def _refill(tx: Transaction, type: str, group: str, per_key: int) -> None:
    # Jobs that are ready already do not count: a held job may have a better priority,
    # and the next claim sets the others aside.
    free = per_key - active_in_group(tx.db, type, group)
    if free > 0 and tx.run(_RELEASE_IN_GROUP, type, group, free):
        tx.ready.add(type)
