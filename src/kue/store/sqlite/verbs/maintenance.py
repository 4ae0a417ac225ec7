"""Maintenance: due jobs, jobs of dead workers, retention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kue.model import retry_policy
from kue.model.job import Job, State, with_progress
from kue.store.sqlite import dependencies, promotion, removal, transitions
from kue.store.sqlite.rows import JobRow, columns_of, fetch, shown, state_rows_of
from kue.store.sqlite.verb_transaction import as_json, read_meta
from kue.store.sqlite.verbs import failures, limits, named_limits, stats, workers
from kue.store.sqlite.verbs.runs import expire, log
from kue.store.values import (
    HOURS_KEPT,
    MINUTES_KEPT,
    STACKS_MS,
    MaintenanceResult,
    Outcome,
    error_line_of,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable

    from kue.model.job import Ending
    from kue.model.settings import Keep
    from kue.store.sqlite.rows import StateRow
    from kue.store.sqlite.verb_transaction import Transaction

#: The most types forgotten in one pass.
MAX_TYPES = 500
_DAY = 24
#: Types without jobs and without activity for a day.  Recent activity is in hours, or
#: in minutes that are not yet in an hour.
_IDLE = """
SELECT name FROM types
WHERE NOT EXISTS (SELECT 1 FROM counts WHERE type = name AND n > 0)
  AND name NOT IN (SELECT type FROM hours WHERE hour >= ?1 - ?2)
  AND name NOT IN (SELECT type FROM stats WHERE minute >= ?1 * 60 - 60)
  AND name NOT IN (SELECT type FROM limits)
  AND name NOT IN (SELECT type FROM pauses)
  AND name NOT IN (
    SELECT schedule->>'$.draft.type' FROM schedules WHERE json_valid(schedule))
LIMIT ?3
"""
_FORGET_TYPES = "DELETE FROM types WHERE name IN (SELECT value FROM json_each(?))"
_FORGET_COUNTS = "DELETE FROM counts WHERE type IN (SELECT value FROM json_each(?))"
#: How long a producer's or lane's last call is remembered, for idempotence, in ms.
REMEMBER_MS = 3_600_000
#: How long events are kept for subscribers in other processes, in ms.
EVENTS_MS = 60_000
_LOST = f"""
SELECT {columns_of(JobRow)} FROM jobs WHERE id IN (
    SELECT id FROM jobs INDEXED BY jobs_active WHERE state = 'active'
    AND worker NOT IN (SELECT name FROM workers WHERE deadline > ?) LIMIT ?)
"""
_TTL_PASSED = f"""
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
    "ttl": (_TTL_PASSED, retry_policy.after_ttl),
}
#: One per state, because a partial index needs its state in the statement.
_OLDEST = {
    state: f"""
SELECT id FROM jobs INDEXED BY jobs_{state}
WHERE state = '{state}' AND retain_until IS NULL AND type = ? AND at <= ?
ORDER BY at, id LIMIT ?
"""
    for state in (State.COMPLETE, State.FAILED, State.CANCELLED)
}
_COUNTED = "SELECT type, n FROM counts WHERE state = ? AND own = 0 AND n > 0"
#: The most outdated rows of each table that one pass deletes.
MAX_FORGOTTEN = 2_000
_FORGET_OLD = (
    "DELETE FROM {0} WHERE {1} IN (SELECT {1} FROM {0} WHERE {2} <= ? LIMIT ?)"
)
_FORGET_PRODUCERS = _FORGET_OLD.format("producers", "name", "at")
_FORGET_CLAIMS = _FORGET_OLD.format("claims", "lane", "at")
_FORGET_EVENTS = _FORGET_OLD.format("events", "seq", "told_at")
_FORGET_RATES = _FORGET_OLD.format("limit_rates", "ref", "until")
_FORGET_WORKERS = """
DELETE FROM workers WHERE deadline <= ? AND NOT EXISTS
    (SELECT 1 FROM jobs INDEXED BY jobs_active
     WHERE state = 'active' AND worker = name)
"""
_FORGET_STACKS = (
    "UPDATE workers SET stacks = NULL, stacks_at = NULL WHERE stacks_at <= ?"
)
#: A time after that of every job: for retention by number alone.
_FAR_FUTURE = 2**62


def check_due(db: sqlite3.Connection, now: int) -> tuple[bool, int]:
    """Return whether a pass is due, and when the last one was made."""
    next_pass = read_meta(db, "next_pass")
    # A later time was noted by a clock that has since been set back.
    is_due = not now < next_pass <= now + workers.PASS_MS
    return is_due, workers.last_pass(db)


def tend(
    tx: Transaction, limit: int, keep: Keep | None, lease: int, is_own: bool = False
) -> MaintenanceResult:
    """
    Make a pass; each part of it changes at most about *limit* jobs.

    With *is_own* the time is that of this process's clock, not the caller's.
    """
    workers.adjust_leases(tx, lease, is_own=is_own)
    limits.end_pauses(tx)
    promoted, more_due = promotion.promote_all(tx, limit)
    rescued = _reclaim(tx, "lease", limit)
    timed_out = _reclaim(tx, "ttl", limit)
    expired = _expire(tx, limit)
    released, more_links = dependencies.notify_postponed(tx, limit)
    pruned = _prune(tx, limit, keep)
    more_held = limits.release_unlimited(tx)
    named_limits.recheck_openings(tx)
    stats.roll_up(tx)
    _forget(tx)
    # All waiters check again, in case one missed something.
    tx.later.add(limits.EVERY)
    bounded = (rescued, timed_out, expired, pruned)
    result = MaintenanceResult(
        promoted=promoted,
        rescued=rescued,
        timed_out=timed_out,
        expired=expired,
        pruned=pruned,
        released=released,
        failures=failures.has_any(tx),
        more=more_due
        or more_links
        or more_held
        or any(0 < n >= limit for n in bounded),
    )
    tx.write_meta("next_pass", tx.now if result.more else tx.now + workers.PASS_MS)
    return result


def _reclaim(tx: Transaction, overdue: str, limit: int) -> int:
    """Reclaim runs whose lease or ttl has expired."""
    sql, after = _OVERDUE[overdue]
    rows = fetch(tx.db, JobRow, sql, tx.now, limit)
    if not rows:
        return 0
    state_rows = state_rows_of(tx.db, [row.id for row in rows])
    endings: list[tuple[StateRow, Ending]] = []
    for row in rows:
        job, state_row = shown(row), state_rows[row.id]
        if state_row.began is None:
            # Its token is malformed: it names no worker that was lost.
            job = msgspec.structs.replace(job, token="")
        ending = with_progress(after(job, tx.now), job.progress, job.progress_data)
        endings.append((state_row, ending))
        line = error_line_of(Outcome(job, ending))
        if line is not None:
            log(tx, row.id, [line])
    transitions.end(tx, endings, taken=overdue)
    return len(rows)


def _expire(tx: Transaction, limit: int) -> int:
    ids = _ids(tx, _EXPIRED, tx.now, limit)
    if ids:
        expire(tx, ids)
    return len(ids)


def _prune(tx: Transaction, limit: int, keep: Keep | None) -> int:
    ids = _ids(tx, _RETAINED, tx.now, limit)
    if keep is not None:
        # What this transaction ended counts too.
        tx.write()
        for state, count, age in _rules(keep):
            ids += _surplus(tx, state, count, age, limit - len(ids))
    state_rows = state_rows_of(tx.db, ids)
    if state_rows:
        removal.remove(tx, list(state_rows.values()), free_keys=False)
    return len(state_rows)


def _rules(keep: Keep) -> Iterable[tuple[State, int | None, int | None]]:
    yield State.COMPLETE, keep.complete_count, keep.complete_age
    yield State.FAILED, keep.failed_count, keep.failed_age
    yield State.CANCELLED, keep.cancelled_count, keep.cancelled_age


def _surplus(
    tx: Transaction, state: State, count: int | None, age: int | None, limit: int
) -> list[int]:
    """Return the ids of ended jobs that are too many or too old, oldest first."""
    ids: list[int] = []
    for type, n in tx.db.execute(_COUNTED, (state,)).fetchall():
        room = limit - len(ids)
        found: set[int] = set()
        if age is not None:
            found |= set(_ids(tx, _OLDEST[state], type, tx.now - age, room))
        if count is not None and n > count:
            size = min(room, n - count)
            found |= set(_ids(tx, _OLDEST[state], type, _FAR_FUTURE, size))
        ids += sorted(found)
    return ids


def _ids(tx: Transaction, sql: str, *values: Any) -> list[int]:
    return [row[0] for row in tx.db.execute(sql, values).fetchall()]


def _forget(tx: Transaction) -> None:
    """Delete outdated rows, a bounded number each, so that idle tables stay small."""
    minute = tx.now // 60_000
    tx.run(_FORGET_PRODUCERS, tx.now - REMEMBER_MS, MAX_FORGOTTEN)
    tx.run(_FORGET_EVENTS, tx.wall - EVENTS_MS, MAX_FORGOTTEN)
    tx.run(_FORGET_RATES, tx.now, MAX_FORGOTTEN)
    tx.run("DELETE FROM listeners WHERE deadline <= ?", tx.wall)
    tx.run("DELETE FROM watched WHERE deadline <= ?", tx.wall)
    tx.run("DELETE FROM stats WHERE minute < ?", minute - MINUTES_KEPT)
    tx.run("DELETE FROM hours WHERE hour < ?", minute // 60 - HOURS_KEPT)
    tx.run("DELETE FROM uniques WHERE until <= ?", tx.now)
    tx.run("DELETE FROM kept WHERE until <= ?", tx.now)
    tx.run(_FORGET_WORKERS, tx.now)
    tx.run(_FORGET_STACKS, tx.now - STACKS_MS)
    _forget_hourly(tx, minute // 60)


def _forget_hourly(tx: Transaction, hour: int) -> None:
    """Delete what only a scan of whole tables finds: claims and idle types."""
    if read_meta(tx.db, "forgot_at", default=-1) == hour:
        return
    claims = tx.run(_FORGET_CLAIMS, tx.now - REMEMBER_MS, MAX_FORGOTTEN)
    types = tx.db.execute(_IDLE, (hour, _DAY, MAX_TYPES)).fetchall()
    names = as_json([name for (name,) in types])
    tx.run(_FORGET_TYPES, names)
    tx.run(_FORGET_COUNTS, names)
    if claims < MAX_FORGOTTEN and len(types) < MAX_TYPES:
        tx.write_meta("forgot_at", hour)
