"""Doctor, checks of single jobs: each row by itself and with its related rows."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from kue.model.job import FINAL, UNFINISHED, Run, State
from kue.model.named_limits import limit_ref
from kue.store.sqlite import dependencies
from kue.store.sqlite.doctor.finding import Repair, SqliteFinding
from kue.store.sqlite.rows import (
    JobRow,
    columns_of,
    fetch,
    is_readable,
    limits_in,
    shown,
)
from kue.store.values import Limits
from kue.store.waiting_order import WaitingOrder

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

_decode_limits = msgspec.json.Decoder(Limits).decode

#: Jobs checked at once.
CHUNK = 1000

_CHUNK = f"""
SELECT {columns_of(JobRow)} FROM
    (SELECT * FROM jobs WHERE id > ? ORDER BY id LIMIT {CHUNK})
"""
_WORKERS = """
SELECT id, worker, worker IN (SELECT name FROM workers)
FROM jobs INDEXED BY jobs_active WHERE state = 'active' AND id BETWEEN ? AND ?
"""
_LIMIT_RUNS = "SELECT job_id, ref FROM limit_runs WHERE job_id BETWEEN ? AND ?"
_KEYS = """
SELECT jobs.id, uniques.job_id, uniques.until, holder.state FROM jobs
LEFT JOIN uniques ON uniques.type = jobs.type AND uniques.key = jobs.unique_key
LEFT JOIN jobs AS holder ON holder.id = uniques.job_id
WHERE jobs.id BETWEEN ? AND ? AND jobs.unique_key IS NOT NULL
"""
_UNLINKED = """
SELECT id FROM jobs WHERE id BETWEEN ? AND ? AND state = 'blocked'
AND NOT EXISTS (SELECT 1 FROM links WHERE child = jobs.id)
"""

#: The values of these are the columns of the job, and what the finding adds.
_ADD_TYPE = Repair("add the type", "INSERT OR IGNORE INTO types (name) VALUES (:type)")
_FORGET_RUN = Repair(
    "forget the run",
    """
    UPDATE jobs SET token = '', worker = '', ttl_at = NULL, cancelling = NULL
    WHERE id = :id AND state <> 'active'
    """,
)
#: No worker has this name: the run counts as lost, and maintenance reclaims it.
_RECLAIM = Repair(
    "reclaim it",
    """
    UPDATE jobs SET worker = '' WHERE id = :id AND state = 'active' AND token = :token
    """,
)
_SET_TIME = Repair(
    "set the time from its history",
    "UPDATE jobs SET at = :time WHERE id = :id AND state = :state AND at IS NULL",
)
_SET_ATTEMPTS = Repair(
    "count those in its history",
    """
    UPDATE jobs SET attempts = :recorded
    WHERE id = :id AND attempts = :attempts AND token = :token
    """,
)
_UNHOLD = Repair(
    "release it", "UPDATE jobs SET held = 0, held_by = NULL WHERE id = :id"
)
_SET_RANK = Repair(
    "set it", "UPDATE jobs SET rank = :right WHERE id = :id AND rank = :rank"
)
_ENTER_LIMIT = Repair(
    "count it", "INSERT OR IGNORE INTO limit_runs (ref, job_id) VALUES (:ref, :id)"
)
_UNBLOCK = Repair(
    "release it", lambda tx, values: dependencies.release(tx, [values["id"]])
)
_RAISE_FENCE = Repair(
    "raise the last fence",
    "UPDATE meta SET value = max(value, :fence) WHERE name = 'fence'",
)
_ADD_WORKER = Repair(
    "count the worker as lost",
    "INSERT OR IGNORE INTO workers (name, deadline) VALUES (:worker, 0)",
)
_TAKE_KEY = Repair(
    "take the key",
    """
    INSERT INTO uniques (type, key, job_id)
    SELECT type, unique_key, id FROM jobs WHERE id = :id
        AND state NOT IN ('complete', 'failed', 'cancelled')
    ON CONFLICT DO UPDATE SET job_id = excluded.job_id, until = NULL
    """,
)


def check_jobs(
    db: sqlite3.Connection, last: int
) -> tuple[list[SqliteFinding], int, int]:
    """Return findings of the jobs after *last*, how many they are, and the last id."""
    rows = sorted(fetch(db, JobRow, _CHUNK, last), key=lambda row: row.id)
    if not rows:
        return [], 0, last
    return list(_JobChecks(db, rows)), len(rows), rows[-1].id


def _orders(db: sqlite3.Connection) -> dict[str, WaitingOrder]:
    """Return the orders of types; the check of columns reports unreadable limits."""
    orders = {}
    for type, text in db.execute("SELECT type, limits FROM limits").fetchall():
        with suppress(ValueError):
            orders[type] = WaitingOrder.of(_decode_limits(text))
    return orders


def _is_limited(row: JobRow) -> bool:
    """Return whether it waits for a limit that it counts against."""
    refs = [limit_ref(*each) for each in limits_in(row.limited_by)]
    return row.state == State.WAITING and row.held == 2 and row.held_by in refs


class _JobChecks:
    """The checks of some rows, on one snapshot: they cannot change in between."""

    def __init__(self, db: sqlite3.Connection, rows: Sequence[JobRow]) -> None:
        self._rows = rows
        ends = (rows[0].id, rows[-1].id)
        self._orders = _orders(db)
        self._types = {row[0] for row in db.execute("SELECT name FROM types")}
        fence = db.execute("SELECT value FROM meta WHERE name = 'fence'")
        self._fence: int = fence.fetchone()[0]
        self._workers = {row[0]: row[1:] for row in db.execute(_WORKERS, ends)}
        self._keys = {row[0]: row[1:] for row in db.execute(_KEYS, ends)}
        self._limit_runs = set(db.execute(_LIMIT_RUNS, ends).fetchall())
        self._unlinked = {row[0] for row in db.execute(_UNLINKED, ends)}

    def __iter__(self) -> Iterator[SqliteFinding]:
        for row in self._rows:
            columns = msgspec.structs.asdict(row)
            for found in self._check(row):
                values = {**columns, **found.values, "job_id": row.id}
                yield found._replace(values=values)

    def _check(self, row: JobRow) -> Iterator[SqliteFinding]:
        if row.state not in set(State):
            yield SqliteFinding("bad-state", f"its state is {row.state!r}")
            return
        if not is_readable(row):
            message = "its record (what to run, or its history) cannot be read"
            yield SqliteFinding("bad-record", message)
        if row.type not in self._types:
            message = f"its type {row.type!r} is not in the list of types"
            yield SqliteFinding("unknown-type", message, _ADD_TYPE)
        yield from self._check_columns(row)
        if row.state == State.ACTIVE:
            yield from self._check_run(row)
            yield from self._check_limits(row)
        yield from self._check_attempts(row)
        if row.unique_key is not None and row.state in UNFINISHED:
            yield from self._check_key(row)

    def _check_columns(self, row: JobRow) -> Iterator[SqliteFinding]:
        if row.state != State.ACTIVE and row.token:
            message = f"it is {row.state} and has a run"
            yield SqliteFinding("bad-state", message, _FORGET_RUN)
        if row.at is None and (row.state == State.DELAYED or row.state in FINAL):
            job = shown(row)
            at = job.history[-1].at if job.history else row.created_at
            message = f"it is {row.state} and has no time"
            yield SqliteFinding("bad-state", message, _SET_TIME, {"time": at})
        if row.held == 1 and (row.state != State.WAITING or row.group_key is None):
            message = "it is held back for a group and is not waiting in one"
            yield SqliteFinding("held-drift", message, _UNHOLD)
        if (row.held == 2 or row.held_by is not None) and not _is_limited(row):
            message = "it is held back for a limit and does not wait for one"
            yield SqliteFinding("held-drift", message, _UNHOLD)
        yield from self._check_rank(row)
        if row.id in self._unlinked:
            message = "it is blocked and waits for no job"
            yield SqliteFinding("stuck-blocked", message, _UNBLOCK)

    def _check_rank(self, row: JobRow) -> Iterator[SqliteFinding]:
        order = self._orders.get(row.type, WaitingOrder())
        is_used = row.state == State.WAITING or not order.is_given
        if row.state in FINAL or not is_used:
            return
        right = order.right_rank(
            row.rank,
            priority=row.priority,
            created_at=row.created_at,
            sequence=row.id,
        )
        if row.rank != right:
            message = f"its rank is {row.rank}, where {right} is right"
            yield SqliteFinding("bad-score", message, _SET_RANK, {"right": right})

    def _check_run(self, row: JobRow) -> Iterator[SqliteFinding]:
        worker, is_known = self._workers[row.id]
        if not row.token:
            yield SqliteFinding("bad-state", "it is active and has no run", _RECLAIM)
            return
        try:
            run = Run.read(row.token)
        except ValueError:
            message = f"its run {row.token!r} cannot be read"
            yield SqliteFinding("bad-run", message, _RECLAIM)
            return
        if worker not in ("", run.worker):
            message = f"it runs at {run.worker!r} and is listed at {worker!r}"
            yield SqliteFinding("bad-run", message, _RECLAIM)
        elif worker and not is_known:
            message = f"it runs at {worker!r}, an unknown worker"
            yield SqliteFinding("no-lease", message, _ADD_WORKER, {"worker": worker})
        if run.fence > self._fence:
            message = (
                f"its fence {run.fence} is above the last one given, {self._fence}"
            )
            values = {"fence": run.fence}
            yield SqliteFinding("fence-behind", message, _RAISE_FENCE, values)

    def _check_limits(self, row: JobRow) -> Iterator[SqliteFinding]:
        for name, key in limits_in(row.limited_by):
            ref = limit_ref(name, key)
            if (row.id, ref) not in self._limit_runs:
                message = f"it runs, and limit {name!r} does not count it"
                yield SqliteFinding("limit-drift", message, _ENTER_LIMIT, {"ref": ref})

    def _check_attempts(self, row: JobRow) -> Iterator[SqliteFinding]:
        try:
            recorded = shown(row).attempts - (1 if row.token else 0)
        except (ValueError, IndexError):
            return
        if row.attempts != recorded:
            message = (
                f"it has spent {row.attempts} attempts and its history has {recorded}"
            )
            values = {"recorded": recorded}
            yield SqliteFinding("attempts-range", message, _SET_ATTEMPTS, values)

    def _check_key(self, row: JobRow) -> Iterator[SqliteFinding]:
        holder, until, state = self._keys[row.id]
        if shown(row).may_lack_key:
            return
        if holder not in (None, row.id) and state in UNFINISHED:
            message = f"it has the unique key {row.unique_key!r}, like job {holder}"
            yield SqliteFinding("two-unique", message)
        elif holder != row.id or until is not None:
            message = f"it does not hold its unique key {row.unique_key!r}"
            yield SqliteFinding("unique-drift", message, _TAKE_KEY)
