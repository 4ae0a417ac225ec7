"""Workers: leases, heartbeats, orders and stacks."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import msgspec

from kue.aio.throttled_log import ThrottledLog
from kue.store.sqlite.verb_transaction import Transaction, as_json, read_meta
from kue.store.sqlite.verbs import limits
from kue.store.values import (
    MAX_STACKS,
    ORDER_MS,
    OVERDUE_MS,
    STACKS_MS,
    HeartbeatReply,
    RenewRequest,
    Stacks,
    WorkerStatus,
    grace_gap,
)

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from kue.model.job import Job

logger = logging.getLogger(__name__)
_log = ThrottledLog(logger)

_LEASE = """
INSERT INTO workers (name, deadline) VALUES (?, ?)
ON CONFLICT DO UPDATE SET deadline = excluded.deadline, has_left = 0
"""
_LEAVE = """
UPDATE workers SET deadline = min(deadline, ?), has_left = 1 WHERE name = ?
"""
_INFO = "UPDATE workers SET info = ? WHERE name = ?"
_RUNS = """
SELECT id, token, cancelling FROM jobs WHERE id IN (SELECT value FROM json_each(?))
"""
_WORKERS = """
SELECT name, deadline, deadline > ?1 AND NOT has_left,
    (SELECT count(*) FROM jobs INDEXED BY jobs_active
     WHERE state = 'active' AND worker = name),
    info,
    EXISTS (SELECT 1 FROM worker_pauses
            WHERE worker = name AND (until IS NULL OR until > ?1)),
    has_left
FROM workers ORDER BY name
"""
_ORDERS = "SELECT orders FROM workers WHERE name = ?"
_LIVE_ORDERS = """
SELECT orders FROM workers WHERE name = ? AND deadline > ? AND NOT has_left
"""
_ORDER = "UPDATE workers SET orders = ? WHERE name = ?"
_WRITE_STACKS = "UPDATE workers SET stacks = ?, stacks_at = ? WHERE name = ?"
_STACKS = "SELECT stacks_at, stacks FROM workers WHERE name = ? AND stacks_at > ?"
_IS_OVER = """
SELECT NOT EXISTS (SELECT 1 FROM workers
    WHERE name = (SELECT worker FROM jobs WHERE id = ?) AND deadline > ?)
"""
_RESET = "UPDATE workers SET deadline = ? WHERE NOT has_left"
_GRACE = "UPDATE workers SET deadline = max(deadline, ?) WHERE NOT has_left"
_NO_ORDERS = "{}"
_read_info = msgspec.json.Decoder(dict[str, Any]).decode
_read_orders = msgspec.json.Decoder(dict[str, int]).decode
_TENDED, _GRACED = "tended_at", "graced_at"
#: Maintenance passes of all processes are this far apart, in ms: a little less than the
#: interval of one worker, so that each pass of a lone worker is made.
PASS_MS = 900
#: The time of the last maintenance, by a clock that cannot be set.
_COUNTED = "tended_uptime"
#: Includes the time that the machine was suspended, where there is such a clock.
_UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: A larger difference of clocks is reported; a busy machine does not cause as much.
CLOCK_ALARM_MS = 10_000

#: A smaller step back is a clock being corrected.
CLOCK_SLACK_MS = 2_000
#: How many grace periods must pass before the next one: a store with rare maintenance
#: would otherwise never reclaim a run.
GRACES = 10


def lease(tx: Transaction, worker: str, duration: int) -> None:
    """Set the worker's lease to *duration* ms from now."""
    tx.run(_LEASE, worker, tx.now + duration)


def renew(tx: Transaction, request: RenewRequest) -> HeartbeatReply:
    worker = request.worker
    lease(tx, worker, request.lease)
    if request.info is not None:
        tx.run(_INFO, as_json(request.info), worker)
    lost, cancel = _check_runs(tx, request.runs)
    passed = last_pass(tx.db)
    return HeartbeatReply(
        lost,
        cancel,
        next(iter(limits.worker_pauses(tx.db, tx.now, worker)), None),
        _take_orders(tx, worker) if request.orders else (),
        0 < passed < tx.now - PASS_MS - OVERDUE_MS,
    )


def _check_runs(
    tx: Transaction, runs: Sequence[Job]
) -> tuple[list[int], dict[int, str]]:
    """Return the runs that are no longer the worker's, and those to be cancelled."""
    if not runs:
        return [], {}
    rows = tx.db.execute(_RUNS, (as_json([job.id for job in runs]),)).fetchall()
    known = {job_id: (token, asked) for job_id, token, asked in rows}
    lost: list[int] = []
    cancel: dict[int, str] = {}
    for job in runs:
        token, asked = known.get(job.id, (None, None))
        if token != job.token:
            lost.append(job.id)
        elif asked is not None:
            cancel[job.id] = asked
    return lost, cancel


def _take_orders(tx: Transaction, worker: str) -> tuple[str, ...]:
    """Return the orders for a worker, and delete them."""
    text = tx.one(_ORDERS, worker)
    if text == _NO_ORDERS:
        return ()
    tx.run(_ORDER, _NO_ORDERS, worker)
    untils = _read_orders(text)
    return tuple(order for order, until in untils.items() if until > tx.now)


def order(tx: Transaction, worker: str, order: str) -> bool:
    text = tx.one(_LIVE_ORDERS, worker, tx.now)
    if text is None:
        return False
    untils = {**_read_orders(text), order: tx.now + ORDER_MS}
    tx.run(_ORDER, as_json(untils), worker)
    return True


def write_stacks(tx: Transaction, worker: str, text: str) -> None:
    """Keep the stacks of a worker, if it is known."""
    kept = text.encode("utf-8", "replace")[:MAX_STACKS].decode("utf-8", "ignore")
    tx.run(_WRITE_STACKS, kept, tx.now, worker)


def stacks(db: sqlite3.Connection, worker: str, *, now: int) -> Stacks | None:
    row = db.execute(_STACKS, (worker, now - STACKS_MS)).fetchone()
    return None if row is None else Stacks(*row)


def leave(tx: Transaction, worker: str) -> None:
    """Deregister a worker: end its lease now."""
    tx.run(_LEAVE, tx.now, worker)


def is_over(tx: Transaction, job_id: int) -> bool:
    """Return whether the lease of a job's worker has expired, or is unknown."""
    return bool(tx.one(_IS_OVER, job_id, tx.now))


def show(db: sqlite3.Connection, *, now: int) -> list[WorkerStatus]:
    return [
        WorkerStatus(
            name,
            deadline,
            bool(alive),
            active,
            _read_info(info),
            bool(is_paused),
            bool(has_left) and not active,
        )
        for name, deadline, alive, active, info, is_paused, has_left in db.execute(
            _WORKERS, (now,)
        )
    ]


def last_pass(db: sqlite3.Connection) -> int:
    """Return when the last maintenance pass was made; 0 for never."""
    return read_meta(db, _TENDED)


def adjust_leases(tx: Transaction, duration: int, *, is_own: bool = False) -> None:
    """
    Extend leases that only look expired, and note the time of this pass.

    With *is_own* the time is that of this process's clock, and is compared with the
    clocks of other processes.
    """
    now, grace = tx.now, duration // 2
    last = read_meta(tx.db, _TENDED, default=now)
    if is_own:
        _compare_clocks(tx, now - last)
    graced = read_meta(tx.db, _GRACED, default=now - GRACES * grace - 1)
    if now < last - CLOCK_SLACK_MS:
        tx.run(_RESET, now + duration)
        tx.run("DELETE FROM meta WHERE name = ?", _GRACED)
    elif now - last > grace_gap(duration) and now - graced > GRACES * grace:
        tx.run(_GRACE, now + grace)
        tx.write_meta(_GRACED, now)
    tx.write_meta(_TENDED, now)


def _compare_clocks(tx: Transaction, passed: int) -> None:
    """Report when the time that *passed* by the clock differs from the uptime."""
    counted = _uptime_ms()
    before = read_meta(tx.db, _COUNTED, default=counted)
    tx.write_meta(_COUNTED, counted)
    # A machine that was restarted since counts from 0 again.
    off = passed - (counted - before) if counted >= before else 0
    if abs(off) > CLOCK_ALARM_MS:
        _log.error(
            "the clock of this process is %d s %s that of the last maintenance pass: "
            "it was set, or processes that share this store have different clocks and "
            "will take over each other's jobs; give all of them the same time",
            abs(off) // 1000,
            "ahead of" if off > 0 else "behind",
        )


def _uptime_ms() -> int:
    """Return the machine's uptime: the same for all its processes."""
    return int(time.clock_gettime(_UPTIME) * 1000)
