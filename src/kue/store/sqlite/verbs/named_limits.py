"""
Named limits: rates and concurrency that jobs share by name and key.

A job over a limit is held (``held = 2``) by the reference of that limit, name and key:
it leaves the index that claims read until a run under the limit ends.  If the limit is
a rate, ``limit_openings`` has the time at which it lets the next job start.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from kue.model.job import State
from kue.model.named_limits import LimitRule, RateLevel, StoredLimit, read_ref
from kue.model.names import quote, unquote
from kue.store.sqlite.rows import refs_in
from kue.store.sqlite.verb_transaction import Transaction, as_json
from kue.store.values import LimitUse, held_by_limit

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

    from kue.store.sqlite.rows import JobRow, StateRow

#: The most limits that one transaction looks at, and jobs of each that it releases.
MAX_REFS, MAX_RELEASED = 100, 200
#: Openings further ahead than this are checked, some per pass: a clock may be set back.
FAR_MS = 5_000

#: As `rows` does it: one statement for all limits of a claim, which returns one value.
_RULES_OF = """
SELECT json_group_object(name, definition) FROM named_limits
WHERE name IN (SELECT value FROM json_each(?))
"""
_RULES = "SELECT name, definition FROM named_limits ORDER BY name"
_SET = "REPLACE INTO named_limits (name, definition) VALUES (?, ?)"
_DELETE = "DELETE FROM named_limits WHERE name = ?"
_RUNNING = """
SELECT json_group_object(ref, n) FROM (
    SELECT ref, count(*) AS n FROM limit_runs
    WHERE ref IN (SELECT value FROM json_each(?)) GROUP BY ref)
"""
_ENTER = """
INSERT OR IGNORE INTO limit_runs (ref, job_id)
SELECT value->>0, value->>1 FROM json_each(?)
"""
_LEAVE = """
DELETE FROM limit_runs WHERE (ref, job_id) IN
    (SELECT CAST(value->>0 AS TEXT), CAST(value->>1 AS INTEGER) FROM json_each(?))
"""
_RATES = """
SELECT json_group_object(ref, state) FROM limit_rates
WHERE ref IN (SELECT value FROM json_each(?))
"""
_SPEND = """
REPLACE INTO limit_rates (ref, state, until)
SELECT value->>0, value->>1, value->>2 FROM json_each(?)
"""
_HOLD = """
UPDATE jobs SET held = 2, held_by = over.value->>0
FROM json_each(?) AS over WHERE jobs.id = over.value->>1
"""
_HELD = "FROM jobs INDEXED BY jobs_held_by WHERE state = 'waiting' AND held = 2"
_BEST_HELD = f"""
SELECT json_group_array(json_array(id, type)) FROM (
    SELECT id, type {_HELD} AND held_by = ? ORDER BY rank, id LIMIT ?)
"""
_RELEASE = """
UPDATE jobs SET held = 0, held_by = NULL WHERE id IN (SELECT value FROM json_each(?))
"""
_HELD_TYPES = f"SELECT DISTINCT type {_HELD} AND held_by = ?"
_HOLDING = f"""
SELECT json_group_array(value) FROM json_each(?)
WHERE EXISTS (SELECT 1 {_HELD} AND held_by = value)
"""
_HELD_REFS = f"""
SELECT DISTINCT held_by {_HELD} AND held_by >= ? AND held_by < ?
ORDER BY held_by LIMIT ?
"""
_OPEN_AT = """
REPLACE INTO limit_openings (type, ref, at)
SELECT value->>0, value->>1, value->>2 FROM json_each(?)
"""
_ANY_OPENING = "SELECT 1 FROM limit_openings LIMIT 1"
_OPENED = """
SELECT json_group_array(json_array(type, ref)) FROM (
    SELECT type, ref FROM limit_openings
    WHERE type IN (SELECT value FROM json_each(?)) AND at <= ? ORDER BY at LIMIT ?)
"""
_CLOSE = """
DELETE FROM limit_openings WHERE (type, ref) IN
    (SELECT CAST(value->>0 AS TEXT), CAST(value->>1 AS TEXT) FROM json_each(?))
"""
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


def read_levels(
    db: sqlite3.Connection, refs: Iterable[str], now: int
) -> dict[str, Level]:
    """Return what each limit allows."""
    names = {ref: unquote(ref.partition(":")[0]) for ref in refs}
    found = _read(db, _RULES_OF, set(names.values()))
    rules = {name: _rule_in(text) for name, text in found.items()}
    rates: dict[str, LimitRule] = {}
    others: dict[str, LimitRule | None] = {}
    for ref, name in names.items():
        rule = rules.get(name)
        if rule is not None and rule.rate is not None:
            rates[ref] = rule
        else:
            others[ref] = rule
    states, running = _read(db, _RATES, rates), _read(db, _RUNNING, others)
    return {
        **{
            # Under a rate, runs do not matter.
            ref: Level(rule, 0, RateLevel.read(rule, states.get(ref, ""), now))
            for ref, rule in rates.items()
        },
        **{ref: Level(rule, running.get(ref, 0), None) for ref, rule in others.items()},
    }


def read_level(db: sqlite3.Connection, ref: str, now: int) -> Level:
    return read_levels(db, [ref], now)[ref]


def _read(db: sqlite3.Connection, sql: str, wanted: Iterable[str]) -> dict[str, Any]:
    """Return what a statement finds, by name or limit."""
    given = list(wanted)
    if not given:
        return {}
    found: dict[str, Any] = json.loads(db.execute(sql, (as_json(given),)).fetchone()[0])
    return found


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
        #: How many more may start.
        self._left: dict[str, float] = {}
        #: Jobs that start, each with a limit.
        self._picked: list[tuple[str, int]] = []
        #: Jobs to hold, by what holds them and their type.
        self._held: dict[tuple[str, str], list[int]] = {}

    def look_up(self, rows: Iterable[JobRow]) -> None:
        """Read the limits of candidates."""
        texts = {row.limited_by for row in rows if row.limited_by is not None}
        refs = {ref for text in texts for ref in refs_in(text)}
        if missing := refs - self._levels.keys():
            levels = read_levels(self._tx.db, missing, self._tx.now)
            self._levels |= levels
            self._left |= {ref: level.left for ref, level in levels.items()}

    def is_over(self, row: JobRow) -> bool:
        """Return whether a limit holds a job; note it if so."""
        refs = refs_in(row.limited_by)
        for ref in refs:
            if self._left[ref] < 1:
                self._held.setdefault((ref, row.type), []).append(row.id)
                # The others may let another job start instead.
                self._tx.limits.update(other for other in refs if other != ref)
                return True
        return False

    def pick(self, row: JobRow) -> None:
        """Count a start under all limits of a job."""
        for ref in refs_in(row.limited_by):
            self._left[ref] -= 1
            self._picked.append((ref, row.id))

    def enter(self) -> None:
        """Write which jobs run under limits, and how far rates are spent."""
        if not self._picked:
            return
        self._tx.run(_ENTER, as_json(self._picked))
        spent = []
        for ref, starts in Counter(ref for ref, _ in self._picked).items():
            level = self._levels[ref] = self._levels[ref].spend(starts)
            if level.rate is not None:
                until = self._tx.now + level.rate.kept_ms
                spent.append((ref, level.rate.text, until))
        if spent:
            self._tx.run(_SPEND, as_json(spent))
        self._picked.clear()

    def hold(self) -> None:
        """Hold jobs that are over a limit."""
        held = [(ref, id) for (ref, _), ids in self._held.items() for id in ids]
        self._tx.run(_HOLD, as_json(held))
        times = [(type, ref, self._levels[ref].opens_at) for ref, type in self._held]
        _note_openings(self._tx, times)
        self._held.clear()


def _note_openings(
    tx: Transaction, times: Iterable[tuple[str, str, int | None]]
) -> None:
    """Note when limits let the next job of a type start; None if time does not help."""
    openings = [(type, ref, at) for type, ref, at in times if at is not None]
    if openings:
        tx.run(_OPEN_AT, as_json(openings))


def leave(tx: Transaction, rows: Iterable[StateRow]) -> None:
    """Note that jobs no longer run, or want to start, under their limits."""
    left = [(ref, row) for row in rows for ref in row.limit_refs]
    tx.run(_LEAVE, as_json([(ref, row.id) for ref, row in left]))
    for ref, row in left:
        tx.limits[ref] += row.state != State.ACTIVE


def refill(tx: Transaction) -> None:
    """Release jobs held by limits that a job of this transaction has left."""
    levels = read_levels(tx.db, _holding(tx, tx.limits), tx.now)
    # A run that ends does not let another start under a rate.
    most = {
        ref: level.left if level.rate is None else min(tx.limits[ref], level.left)
        for ref, level in levels.items()
    }
    _release(tx, most)
    tx.limits.clear()


def _holding(tx: Transaction, refs: Iterable[str]) -> set[str]:
    """Return those of the limits that hold jobs."""
    return set(json.loads(tx.one(_HOLDING, as_json(list(refs)))))


def _release(tx: Transaction, most: Mapping[str, float]) -> Counter[str]:
    """Release up to so many jobs of each limit; return how many."""
    released: Counter[str] = Counter()
    ids: list[int] = []
    for ref, number in most.items():
        limit = int(min(max(0, number), MAX_RELEASED))
        if not limit:
            continue
        found = json.loads(tx.one(_BEST_HELD, ref, limit))
        released[ref] = len(found)
        ids += [id for id, _ in found]
        tx.ready |= {type for _, type in found}
    if ids:
        tx.run(_RELEASE, as_json(ids))
    return released


def release_opened(tx: Transaction, types: Iterable[str]) -> None:
    """Release jobs of *types* that a rate held back until now."""
    if tx.one(_ANY_OPENING) is None:
        return
    values = (as_json(list(types)), tx.now, MAX_REFS)
    opened: list[tuple[str, str]] = json.loads(tx.one(_OPENED, *values))
    if not opened:
        return
    levels = read_levels(tx.db, {ref for _, ref in opened}, tx.now)
    released = _release(tx, {ref: level.left for ref, level in levels.items()})
    holding = _holding(tx, levels)
    opens_at = {
        ref: _reopens_at(level, released[ref], tx.now) if ref in holding else None
        for ref, level in levels.items()
    }
    closed = [(type, ref) for type, ref in opened if opens_at[ref] is None]
    if closed:
        tx.run(_CLOSE, as_json(closed))
    _note_openings(tx, [(type, ref, opens_at[ref]) for type, ref in opened])


def _reopens_at(level: Level, released: int, now: int) -> int | None:
    """Return when a limit lets more jobs start; None if time does not help."""
    if level.rule is None:
        return now
    # As if all of them start now; if not, the next claim finds them waiting.
    return (level.spend(released) if released else level).opens_at


def recheck_openings(tx: Transaction) -> None:
    """Find limits that open earlier than was noted, after the clock was set back."""
    far = (tx.now + FAR_MS, MAX_REFS)
    for type, ref in tx.db.execute(_FAR, far).fetchall():
        opens_at = read_level(tx.db, ref, tx.now).opens_at
        _note_openings(tx, [(type, ref, tx.now if opens_at is None else opens_at)])
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
        freed = _release(tx, {ref: level.left})[ref]
        if freed == MAX_RELEASED:
            # There may be more under this key.
            return str(ref)
        at = (level.spend(freed) if freed else level).opens_at
        types = tx.db.execute(_HELD_TYPES, (ref,)).fetchall()
        _note_openings(tx, [(type, ref, at) for (type,) in types])
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
