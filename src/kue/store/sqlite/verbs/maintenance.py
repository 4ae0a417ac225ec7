"""Upkeep: one bounded pass over everything that time or a lost worker left undone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kue.model import retry_policy
from kue.model.job import Job, State
from kue.store.sqlite import (
    dependencies,
    promotion,
    removal,
    transitions,
    unique_keys,
    unused_types,
)
from kue.store.sqlite.rows import JobRow, columns_of, fetch, shown, slips_of
from kue.store.sqlite.verbs import limits, records, stats, workers
from kue.store.sqlite.verbs.claim import expire
from kue.store.values import MaintenanceResult

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from kue.model.job import Ending, Job
    from kue.model.settings import Keep
    from kue.store.sqlite.rows import StateRow
    from kue.store.sqlite.transaction import Transaction

#: How long an idempotent producer or claim is remembered, in ms.
REMEMBER_MS = 3_600_000
#: How long events are kept for listeners of other processes, in ms.
EVENTS_MS = 60_000

_LOST = f"""
SELECT {columns_of(JobRow)} FROM jobs WHERE id IN (
    SELECT id FROM jobs INDEXED BY jobs_active WHERE state = 'active'
    AND worker NOT IN (SELECT name FROM workers WHERE deadline > ?) LIMIT ?)
"""
_SILENT = f"""
SELECT {columns_of(JobRow)} FROM jobs WHERE id IN (
    SELECT id FROM jobs INDEXED BY jobs_ttl
    WHERE ttl_at IS NOT NULL AND ttl_at <= ? AND state = 'active'
    ORDER BY ttl_at LIMIT ?)
"""
_EXPIRED = """
SELECT id FROM jobs INDEXED BY jobs_expiring
WHERE expires_at IS NOT NULL AND expires_at <= ?
  AND (state = 'waiting' OR state = 'delayed' OR state = 'blocked')
ORDER BY expires_at LIMIT ?
"""
_RETAINED = """
SELECT id FROM jobs INDEXED BY jobs_retained_until
WHERE retain_until IS NOT NULL AND retain_until <= ? ORDER BY retain_until LIMIT ?
"""
_OVERDUE: dict[str, tuple[str, Callable[[Job, int], Ending]]] = {
    "lease": (_LOST, retry_policy.after_lost_worker),
    "ttl": (_SILENT, retry_policy.after_ttl),
}
#: One for each state, because a partial index needs its state in the statement.
_OLDEST = {
    state: f"""
SELECT id FROM jobs INDEXED BY jobs_{state}
WHERE state = '{state}' AND retain_until IS NULL AND type = ? AND at <= ?
ORDER BY at, id LIMIT ?
"""
    for state in (State.COMPLETE, State.FAILED, State.CANCELLED)
}
_COUNTED = "SELECT type, n FROM counts WHERE state = ? AND own = 0 AND n > 0"
_PAUSES = "DELETE FROM pauses WHERE until <= ? RETURNING type"
#: Rows of each table that one pass deletes because they served their time, at most.
MAX_FORGOTTEN = 2_000
_FORGET_PRODUCERS = """
DELETE FROM producers WHERE name IN (SELECT name FROM producers WHERE at <= ? LIMIT ?)
"""
_FORGET_CLAIMS = """
DELETE FROM claims WHERE lane IN (SELECT lane FROM claims WHERE at <= ? LIMIT ?)
"""
_FORGET_EVENTS = """
DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE told_at <= ? LIMIT ?)
"""
_FORGOT_AT = "SELECT value FROM meta WHERE name = 'forgot_at'"
_NOTE_FORGOT = """
INSERT INTO meta (name, value) VALUES ('forgot_at', ?)
ON CONFLICT DO UPDATE SET value = excluded.value
"""
_NEXT_PASS = "SELECT value FROM meta WHERE name = 'next_pass'"
_NOTE_PASS = """
INSERT INTO meta (name, value) VALUES ('next_pass', ?)
ON CONFLICT DO UPDATE SET value = excluded.value
"""
#: A time that no job reaches: for rules that go by number alone.
_EVER = 2**62


def look(db: sqlite3.Connection, now: int) -> tuple[bool, int]:
    """Return whether it is time for a pass, and when the last one was made."""
    row = db.execute(_NEXT_PASS).fetchone()
    # One that is further off was noted by a clock that has since been set back.
    is_due = row is None or not now < row[0] <= now + workers.PASS_MS
    return is_due, workers.last_pass(db)


def tend(
    turn: Transaction, limit: int, keep: Keep | None, lease: int, is_own: bool = False
) -> MaintenanceResult:
    """
    Do a pass; each part of it touches at most about *limit* jobs.

    With *is_own* the time is that of this process's clock, not the caller's.
    """
    workers.mind_the_clock(turn, lease, is_own=is_own)
    end_pauses(turn)
    promoted, more_due = promotion.promote_all(turn, limit)
    rescued = _take_back(turn, "lease", limit)
    timed_out = _take_back(turn, "ttl", limit)
    expired = _expire(turn, limit)
    released, more_links = dependencies.tell_left(turn, limit)
    pruned = _prune(turn, limit, keep)
    more_held = limits.let_go_unlimited(turn)
    stats.roll_up(turn)
    _forget(turn)
    # Whoever sleeps through something looks again.
    turn.later.add(limits.EVERY)
    bounded = (rescued, timed_out, expired, pruned)
    tended = MaintenanceResult(
        promoted=promoted,
        rescued=rescued,
        timed_out=timed_out,
        expired=expired,
        pruned=pruned,
        released=released,
        more=more_due
        or more_links
        or more_held
        or any(0 < n >= limit for n in bounded),
    )
    turn.run(_NOTE_PASS, turn.now if tended.more else turn.now + workers.PASS_MS)
    return tended


def end_pauses(turn: Transaction) -> None:
    """Delete pauses that are over, and wake whoever waits for that."""
    turn.ready |= {row[0] for row in turn.db.execute(_PAUSES, (turn.now,)).fetchall()}
    workers.end_pauses(turn)


def _take_back(turn: Transaction, overdue: str, limit: int) -> int:
    """End runs whose lease or ttl is over, and that nobody else will end."""
    sql, after = _OVERDUE[overdue]
    rows = fetch(turn.db, JobRow, sql, turn.now, limit)
    if not rows:
        return 0
    slips = slips_of(turn.db, [row.id for row in rows])
    endings: list[tuple[StateRow, Ending]] = []
    for row in rows:
        job, slip = shown(row), slips[row.id]
        if slip.began is None:
            # Its token makes no sense: nobody can be told to have lost it.
            job = msgspec.structs.replace(job, token="")
        endings.append((slip, after(job, turn.now)))
    transitions.end(turn, endings, taken=overdue)
    return len(rows)


def _expire(turn: Transaction, limit: int) -> int:
    ids = _ids(turn, _EXPIRED, turn.now, limit)
    if ids:
        expire(turn, ids)
    return len(ids)


def _prune(turn: Transaction, limit: int, keep: Keep | None) -> int:
    ids = _ids(turn, _RETAINED, turn.now, limit)
    if keep is not None:
        # What this turn ended counts too.
        turn.write()
        for state, count, age in _rules(keep):
            ids += _surplus(turn, state, count, age, limit - len(ids))
    slips = slips_of(turn.db, ids)
    if slips:
        removal.remove(turn, list(slips.values()), free_keys=False)
    return len(slips)


def _rules(keep: Keep) -> Iterable[tuple[State, int | None, int | None]]:
    yield State.COMPLETE, keep.complete_count, keep.complete_age
    yield State.FAILED, keep.failed_count, keep.failed_age
    yield State.CANCELLED, keep.cancelled_count, keep.cancelled_age


def _surplus(
    turn: Transaction, state: State, count: int | None, age: int | None, limit: int
) -> list[int]:
    """Return the ids of ended jobs that are too many or too old, oldest first."""
    ids: list[int] = []
    for type, n in turn.db.execute(_COUNTED, (state,)).fetchall():
        room = limit - len(ids)
        found: set[int] = set()
        if age is not None:
            found |= set(_ids(turn, _OLDEST[state], type, turn.now - age, room))
        if count is not None and n > count:
            size = min(room, n - count)
            found |= set(_ids(turn, _OLDEST[state], type, _EVER, size))
        ids += sorted(found)
    return ids


def _ids(turn: Transaction, sql: str, *values: Any) -> list[int]:
    return [row[0] for row in turn.db.execute(sql, values).fetchall()]


def _forget(turn: Transaction) -> None:
    """Delete what served its time, so that idle tables stay small; a part of each."""
    old = turn.now - REMEMBER_MS
    turn.run(_FORGET_PRODUCERS, old, MAX_FORGOTTEN)
    turn.run(_FORGET_EVENTS, turn.wall - EVENTS_MS, MAX_FORGOTTEN)
    turn.run("DELETE FROM listeners WHERE deadline <= ?", turn.wall)
    turn.run("DELETE FROM watched WHERE deadline <= ?", turn.wall)
    stats.forget(turn)
    unique_keys.forget(turn)
    records.sweep(turn)
    workers.forget(turn)
    _forget_hourly(turn, old)


def _forget_hourly(turn: Transaction, old: int) -> None:
    """Delete what only a look at whole tables finds: claims and types."""
    hour = turn.now // 3_600_000
    if turn.one(_FORGOT_AT) == hour:
        return
    claims = turn.run(_FORGET_CLAIMS, old, MAX_FORGOTTEN)
    forgotten = unused_types.forget_idle(turn, hour)
    if claims < MAX_FORGOTTEN and forgotten < unused_types.MAX_FORGOTTEN:
        turn.run(_NOTE_FORGOT, hour)
