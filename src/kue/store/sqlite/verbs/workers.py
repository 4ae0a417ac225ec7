"""Workers: whose lease runs how long, and what they hear at a beat."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any

import msgspec

from kue.aio.throttled_log import ThrottledLog
from kue.store.sqlite.transaction import Transaction, as_json
from kue.store.values import (
    MAX_STACKS,
    ORDER_MS,
    OVERDUE_MS,
    STACKS_MS,
    HeartbeatReply,
    Pause,
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
_FORGET_STACKS = """
UPDATE workers SET stacks = NULL, stacks_at = NULL WHERE stacks_at <= ?
"""
_PAUSE = """
INSERT INTO worker_pauses (worker, at, reason, who, until) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET at = excluded.at, reason = excluded.reason,
    who = excluded.who, until = excluded.until
"""
_PAUSES = """
SELECT at, reason, who, until, worker FROM worker_pauses
WHERE (until IS NULL OR until > ?1) AND (?2 IS NULL OR worker = ?2) ORDER BY worker
"""
_RESUME = "DELETE FROM worker_pauses WHERE worker = ?"
_END_PAUSES = "DELETE FROM worker_pauses WHERE until <= ?"
_IS_OVER = """
SELECT NOT EXISTS (SELECT 1 FROM workers
    WHERE name = (SELECT worker FROM jobs WHERE id = ?) AND deadline > ?)
"""
_ANEW = "UPDATE workers SET deadline = ? WHERE NOT has_left"
_GRACE = "UPDATE workers SET deadline = max(deadline, ?) WHERE NOT has_left"
_FORGET = """
DELETE FROM workers WHERE deadline <= ? AND NOT EXISTS
    (SELECT 1 FROM jobs INDEXED BY jobs_active
     WHERE state = 'active' AND worker = name)
"""
_MOMENT = "SELECT value FROM meta WHERE name = ?"
_NOTE = """
INSERT INTO meta (name, value) VALUES (?, ?)
ON CONFLICT DO UPDATE SET value = excluded.value
"""
_NO_ORDERS = "{}"
_read_info = msgspec.json.Decoder(dict[str, Any]).decode
_read_orders = msgspec.json.Decoder(dict[str, int]).decode
_TENDED, _GRACED = "tended_at", "graced_at"
#: Passes of all processes are this far apart, in ms: a little less than workers rest
#: between two, so that each pass of a lone worker is made.
PASS_MS = 900
#: When the store was last tended, by a clock that nobody sets.
_COUNTED = "tended_uptime"
#: With the time that the machine was suspended, where there is such a clock.
_UPTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
#: Clocks that differ by more are reported; a busy machine does not make it this much.
CLOCK_ALARM_MS = 10_000

#: A step back that is no more than this is a clock being set right.
CLOCK_SLACK_MS = 2_000
#: Graces that must pass before there is another: a store that is tended seldom would
#: otherwise never take a run back.
GRACES = 10


def lease(turn: Transaction, worker: str, duration: int) -> None:
    """Let the worker's lease run for *duration* ms from now."""
    turn.run(_LEASE, worker, turn.now + duration)


def renew(
    turn: Transaction,
    worker: str,
    duration: int,
    runs: Sequence[Job],
    info: dict[str, Any] | None,
    orders: bool = False,
) -> HeartbeatReply:
    """Prolong a lease; say which runs are lost and which are to be cancelled."""
    lease(turn, worker, duration)
    if info is not None:
        turn.run(_INFO, as_json(info), worker)
    lost, cancel = _look_at(turn, runs)
    passed = last_pass(turn.db)
    return HeartbeatReply(
        lost,
        cancel,
        next(iter(pauses(turn.db, turn.now, worker)), None),
        _take_orders(turn, worker) if orders else (),
        0 < passed < turn.now - PASS_MS - OVERDUE_MS,
    )


def _look_at(
    turn: Transaction, runs: Sequence[Job]
) -> tuple[list[int], dict[int, str]]:
    """Return which runs are no longer the worker's, and which others are to end."""
    if not runs:
        return [], {}
    rows = turn.db.execute(_RUNS, (as_json([job.id for job in runs]),)).fetchall()
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


def _take_orders(turn: Transaction, worker: str) -> tuple[str, ...]:
    """Return what a worker was ordered to do, and forget it."""
    text = turn.one(_ORDERS, worker)
    if text == _NO_ORDERS:
        return ()
    turn.run(_ORDER, _NO_ORDERS, worker)
    untils = _read_orders(text)
    return tuple(order for order, until in untils.items() if until > turn.now)


def order(turn: Transaction, worker: str, order: str) -> bool:
    """Order a worker to do something; tell whether it lives."""
    text = turn.one(_LIVE_ORDERS, worker, turn.now)
    if text is None:
        return False
    untils = {**_read_orders(text), order: turn.now + ORDER_MS}
    turn.run(_ORDER, as_json(untils), worker)
    return True


def write_stacks(turn: Transaction, worker: str, text: str) -> None:
    """Keep the stacks of a worker, if it is known."""
    kept = text.encode("utf-8", "replace")[:MAX_STACKS].decode("utf-8", "ignore")
    turn.run(_WRITE_STACKS, kept, turn.now, worker)


def stacks(db: sqlite3.Connection, worker: str, now: int) -> Stacks | None:
    """Return the stacks that a worker last wrote down, unless that is long ago."""
    row = db.execute(_STACKS, (worker, now - STACKS_MS)).fetchone()
    return None if row is None else Stacks(*row)


def leave(turn: Transaction, worker: str) -> None:
    """End a lease now."""
    turn.run(_LEAVE, turn.now, worker)


def is_over(turn: Transaction, job_id: int) -> bool:
    """Tell whether the lease of a job's worker is over, or was never known."""
    return bool(turn.one(_IS_OVER, job_id, turn.now))


def show(db: sqlite3.Connection, now: int) -> list[WorkerStatus]:
    """Return the workers the store knows, by name."""
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


def pause(
    turn: Transaction, worker: str, reason: str, by: str, until: int | None
) -> None:
    """Have a worker told to start nothing new, whether it is known or not."""
    turn.run(_PAUSE, worker, turn.now, reason, by, until)


def resume(turn: Transaction, worker: str) -> bool:
    """End the pause of a worker; tell whether it was in force."""
    was_paused = bool(pauses(turn.db, turn.now, worker))
    turn.run(_RESUME, worker)
    return was_paused


def pauses(db: sqlite3.Connection, now: int, worker: str | None = None) -> list[Pause]:
    """Return the pauses in force of one worker or (None) of all, by name."""
    return [Pause(None, *row) for row in db.execute(_PAUSES, (now, worker)).fetchall()]


def end_pauses(turn: Transaction) -> None:
    """Delete pauses that are over."""
    turn.run(_END_PAUSES, turn.now)


def last_pass(db: sqlite3.Connection) -> int:
    """Return when someone last tended; 0 for never."""
    row = db.execute(_MOMENT, (_TENDED,)).fetchone()
    return row[0] if row else 0


def mind_the_clock(turn: Transaction, duration: int, *, is_own: bool = False) -> None:
    """
    Prolong leases that only look over, and note that someone tends.

    With *is_own* the time is that of this process's clock, and compared with others'.
    """
    now, grace = turn.now, duration // 2
    last: int = _moment(turn, _TENDED, default=now)
    if is_own:
        _compare_clocks(turn, now - last)
    graced: int = _moment(turn, _GRACED, default=now - GRACES * grace - 1)
    if now < last - CLOCK_SLACK_MS:
        turn.run(_ANEW, now + duration)
        turn.run("DELETE FROM meta WHERE name = ?", _GRACED)
    elif now - last > grace_gap(duration) and now - graced > GRACES * grace:
        turn.run(_GRACE, now + grace)
        turn.run(_NOTE, _GRACED, now)
    turn.run(_NOTE, _TENDED, now)


def _compare_clocks(turn: Transaction, passed: int) -> None:
    """Report when another time *passed* by the clock than the machine counted."""
    counted = _counted_ms()
    before = _moment(turn, _COUNTED, default=counted)
    turn.run(_NOTE, _COUNTED, counted)
    # A machine that was started since counts from 0 again.
    off = passed - (counted - before) if counted >= before else 0
    if abs(off) > CLOCK_ALARM_MS:
        _log.error(
            "the clock of this process is %d s %s that of the last maintenance pass: "
            "it was set, or processes that share this store have different clocks and "
            "will take over each other's jobs; give all of them the same time",
            abs(off) // 1000,
            "ahead of" if off > 0 else "behind",
        )


def _counted_ms() -> int:
    """Return for how long the machine is up: the same for all its processes."""
    return int(time.clock_gettime(_UPTIME) * 1000)


def _moment(turn: Transaction, name: str, *, default: int) -> int:
    found: int | None = turn.one(_MOMENT, name)
    return default if found is None else found


def forget(turn: Transaction) -> None:
    """Delete workers whose lease is over and who have nothing in hand any more."""
    turn.run(_FORGET, turn.now)
    turn.run(_FORGET_STACKS, turn.now - STACKS_MS)
