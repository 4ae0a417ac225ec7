"""
Named limits: rates and concurrency that jobs share by name and key.

A job over a limit is held (``held = 2``) by the reference of that limit, name and key:
it leaves the index that claims read until a run under the limit ends.  If the limit is
a rate, ``limit_openings`` has the time at which it lets the next job start.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from kue.model.named_limits import LimitRule, RateLevel, StoredLimit, read_ref
from kue.model.names import quote, unquote
from kue.store.sqlite.verb_transaction import Transaction, as_json
from kue.store.values import LimitUse, held_by_limit

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable

    from kue.model.job import Job
    from kue.store.sqlite.rows import StateRow

#: The most limits that one transaction looks at, and jobs of each that it releases.
MAX_REFS, MAX_RELEASED = 100, 200
#: Openings further ahead than this are checked, some per pass: a clock may be set back.
FAR_MS = 5_000

_RULE = "SELECT definition FROM named_limits WHERE name = ?"
_RULES = "SELECT name, definition FROM named_limits ORDER BY name"
_SET = "REPLACE INTO named_limits (name, definition) VALUES (?, ?)"
_DELETE = "DELETE FROM named_limits WHERE name = ?"
_RUNNING = "SELECT count(*) FROM limit_runs WHERE ref = ?"
_ENTER = """
INSERT OR IGNORE INTO limit_runs (ref, job_id)
SELECT value->>0, value->>1 FROM json_each(?)
"""
_LEAVE = """
DELETE FROM limit_runs WHERE (ref, job_id) IN
    (SELECT value->>0, value->>1 FROM json_each(?))
"""
_RATE = "SELECT state FROM limit_rates WHERE ref = ?"
_SPEND = "REPLACE INTO limit_rates (ref, state, until) VALUES (?, ?, ?)"
_HOLD = """
UPDATE jobs SET held = 2, held_by = ? WHERE id IN (SELECT value FROM json_each(?))
"""
_HELD = "FROM jobs INDEXED BY jobs_held_by WHERE state = 'waiting' AND held = 2"
_RELEASE = f"""
UPDATE jobs SET held = 0, held_by = NULL WHERE id IN (
    SELECT id {_HELD} AND held_by = ? ORDER BY rank, id LIMIT ?)
RETURNING type
"""
_HELD_TYPES = f"SELECT DISTINCT type {_HELD} AND held_by = ?"
_IS_HOLDING = f"SELECT EXISTS (SELECT 1 {_HELD} AND held_by = ?)"
_HELD_REFS = f"""
SELECT DISTINCT held_by {_HELD} AND held_by >= ? AND held_by < ?
ORDER BY held_by LIMIT ?
"""
_OPEN_AT = "REPLACE INTO limit_openings (type, ref, at) VALUES (?, ?, ?)"
_ANY_OPENING = "SELECT 1 FROM limit_openings LIMIT 1"
_OPENED = """
SELECT type, ref FROM limit_openings
WHERE type IN (SELECT value FROM json_each(?)) AND at <= ? ORDER BY at LIMIT ?
"""
_CLOSE = "DELETE FROM limit_openings WHERE type = ? AND ref = ?"
_OPENING = "SELECT at FROM limit_openings WHERE type = ? AND ref = ?"
_FAR = "SELECT type, ref FROM limit_openings WHERE at > ? ORDER BY random() LIMIT ?"
_USE = f"""
SELECT ref, sum(running), sum(waiting) FROM (
    SELECT ref, count(*) AS running, 0 AS waiting FROM limit_runs
    WHERE ref >= ?1 AND ref < ?2 GROUP BY ref
    UNION ALL
    SELECT held_by, 0, count(*) {_HELD} AND held_by >= ?1 AND held_by < ?2
    GROUP BY held_by)
GROUP BY ref ORDER BY sum(waiting) DESC, sum(running) DESC, ref LIMIT ?3
"""


class Level(NamedTuple):
    """What a limit allows at one moment."""

    rule: LimitRule | None
    running: int
    rate: RateLevel | None

    @property
    def left(self) -> float:
        """How many more jobs may start."""
        if self.rule is None:
            return math.inf
        if self.rate is not None:
            return self.rate.left
        return (self.rule.concurrency or 0) - self.running

    @property
    def opens_at(self) -> int | None:
        """When the next job may start; None if time does not help."""
        return None if self.rate is None else self.rate.opens_at

    def spend(self, starts: int) -> Level:
        rate = None if self.rate is None else self.rate.spend(starts)
        return self._replace(running=self.running + starts, rate=rate)


def read_level(db: sqlite3.Connection, ref: str, now: int) -> Level:
    row = db.execute(_RULE, (unquote(ref.partition(":")[0]),)).fetchone()
    rule = _rule_in(row[0]) if row else None
    [running] = db.execute(_RUNNING, (ref,)).fetchone()
    if rule is None or rule.rate is None:
        return Level(rule, running, None)
    state = db.execute(_RATE, (ref,)).fetchone()
    return Level(rule, running, RateLevel.read(rule, state[0] if state else "", now))


def _rule_in(text: str) -> LimitRule | None:
    """Return a stored rule; None for one that cannot be read, as in Redis."""
    try:
        return StoredLimit.read(text).rule
    except (ValueError, TypeError):
        return None


class ClaimedLimits:
    """The limits that the jobs of one claim count against."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._levels: dict[str, Level] = {}
        self._spent: set[str] = set()
        #: Jobs to hold, by what holds them and their type.
        self._held: dict[tuple[str, str], list[int]] = {}

    def pick(self, job: Job) -> bool:
        """Count a start under all limits of a job, or note that one holds it."""
        refs = job.limit_refs
        for ref in refs:
            if self._level(ref).left < 1:
                self._held.setdefault((ref, job.type), []).append(job.id)
                # The others may let another job start instead.
                self._tx.limits.update(other for other in refs if other != ref)
                return False
        for ref in refs:
            self._levels[ref] = self._level(ref).spend(1)
        self._spent.update(refs)
        return True

    def _level(self, ref: str) -> Level:
        if ref not in self._levels:
            self._levels[ref] = read_level(self._tx.db, ref, self._tx.now)
        return self._levels[ref]

    def enter(self, jobs: Iterable[Job]) -> None:
        """Write which *jobs* run under limits, and how far rates are spent."""
        if not self._spent:
            return
        runs = [(ref, job.id) for job in jobs for ref in job.limit_refs]
        self._tx.run(_ENTER, as_json(runs))
        for ref in self._spent:
            rate = self._levels[ref].rate
            if rate is not None:
                self._tx.run(_SPEND, ref, rate.text, self._tx.now + rate.kept_ms)
        self._spent.clear()

    def hold(self) -> None:
        """Hold jobs that were not picked."""
        for (ref, type), ids in self._held.items():
            self._tx.run(_HOLD, ref, as_json(ids))
            _note_opening(self._tx, type, ref, self._level(ref))
        self._held.clear()


def _note_opening(tx: Transaction, type: str, ref: str, level: Level) -> None:
    if level.opens_at is not None:
        tx.run(_OPEN_AT, type, ref, level.opens_at)


def leave(tx: Transaction, rows: Iterable[StateRow]) -> None:
    """Note that jobs no longer run, or want to start, under their limits."""
    left = [(ref, row.id) for row in rows for ref in row.limit_refs]
    tx.run(_LEAVE, as_json(left))
    tx.limits.update(ref for ref, _ in left)


def refill(tx: Transaction) -> None:
    """Release jobs held by limits that a job of this transaction has left."""
    for ref in tx.limits:
        if tx.one(_IS_HOLDING, ref):
            _release(tx, ref, read_level(tx.db, ref, tx.now).left)
    tx.limits.clear()


def _release(tx: Transaction, ref: str, most: float) -> int:
    limit = int(min(max(0, most), MAX_RELEASED))
    rows = tx.db.execute(_RELEASE, (ref, limit)).fetchall() if limit else []
    tx.ready |= {type for (type,) in rows}
    return len(rows)


def release_opened(tx: Transaction, types: Iterable[str]) -> None:
    """Release jobs of *types* that a rate held back until now."""
    if tx.one(_ANY_OPENING) is None:
        return
    opened = (as_json(list(types)), tx.now, MAX_REFS)
    for type, ref in tx.db.execute(_OPENED, opened).fetchall():
        level = read_level(tx.db, ref, tx.now)
        freed = _release(tx, ref, level.left)
        if not tx.one(_IS_HOLDING, ref):
            tx.run(_CLOSE, type, ref)
        elif level.rule is None:
            tx.run(_OPEN_AT, type, ref, tx.now)
        elif level.rate is None:
            # Runs that end let others start.
            tx.run(_CLOSE, type, ref)
        else:
            # As if all of them start now; if not, the next claim finds them waiting.
            _note_opening(tx, type, ref, level.spend(freed) if freed else level)


def recheck_openings(tx: Transaction) -> None:
    """Find limits that open earlier than was noted, after the clock was set back."""
    far = (tx.now + FAR_MS, MAX_REFS)
    for type, ref in tx.db.execute(_FAR, far).fetchall():
        opens_at = read_level(tx.db, ref, tx.now).opens_at
        tx.run(_OPEN_AT, type, ref, tx.now if opens_at is None else opens_at)
        tx.later.add(type)


# -- verbs ---------------------------------------------------------------------


def write_rule(tx: Transaction, name: str, limit: StoredLimit | None) -> None:
    if limit is None:
        tx.run(_DELETE, name)
    else:
        tx.run(_SET, name, limit.text)


def release_named(tx: Transaction, name: str, start: str = "") -> str | None:
    """
    Release jobs that the rule of a limit lets start, for some of its keys.

    Returns the reference from which on to continue, None at the end.
    """
    first, last = _range(name)
    found = tx.db.execute(_HELD_REFS, (max(start, first), last, MAX_REFS)).fetchall()
    for (ref,) in found:
        level = read_level(tx.db, ref, tx.now)
        freed = _release(tx, ref, level.left)
        if freed == MAX_RELEASED:
            # There may be more under this key.
            return str(ref)
        for (type,) in tx.db.execute(_HELD_TYPES, (ref,)).fetchall():
            _note_opening(tx, type, ref, level.spend(freed) if freed else level)
    # No reference has a control character: this one comes right after the last.
    return f"{found[-1][0]}\x01" if len(found) == MAX_REFS else None


def named_limits(db: sqlite3.Connection) -> dict[str, StoredLimit]:
    return {name: StoredLimit.read(text) for name, text in db.execute(_RULES)}


def limit_use(
    db: sqlite3.Connection, name: str, *, limit: int = 100, now: int
) -> list[LimitUse]:
    rows = db.execute(_USE, (*_range(name), limit)).fetchall()
    return [
        LimitUse(read_ref(ref)[1], running, waiting, read_level(db, ref, now).opens_at)
        for ref, running, waiting in rows
    ]


def hold_of(
    db: sqlite3.Connection, type: str, ref: str, now: int
) -> tuple[str, int | None]:
    """Return why a limit holds a job, and when it lets one of the type start."""
    level = read_level(db, ref, now)
    row = db.execute(_OPENING, (type, ref)).fetchone()
    opens_at = row[0] if row and level.rate is not None else None
    return held_by_limit(ref, level.rule, level.running), opens_at


def _range(name: str) -> tuple[str, str]:
    """Return what the references of a limit lie between, the first included."""
    first = f"{quote(name)}:"
    # The next character after the colon.
    return first, f"{quote(name)};"
