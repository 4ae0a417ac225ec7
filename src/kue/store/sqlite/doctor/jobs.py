"""Doctor, checks of single jobs: each row by itself and with its related rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kue.model.job import FINAL, UNFINISHED, Run, State
from kue.store.sqlite import dependencies
from kue.store.sqlite.doctor.finding import SqliteFinding, statement
from kue.store.sqlite.rows import JobRow, columns_of, fetch, is_readable, shown

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from kue.store.sqlite.transaction import Transaction

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
_TYPES = "SELECT name FROM types"
_FENCE = "SELECT value FROM meta WHERE name = 'fence'"

_FORGET_RUN = """
UPDATE jobs SET token = '', worker = '', ttl_at = NULL, cancelling = NULL
WHERE id = ? AND state <> 'active'
"""
#: No worker has this name: the run counts as lost, and maintenance reclaims it.
_ABANDON = "UPDATE jobs SET worker = '' WHERE id = ? AND state = 'active' AND token = ?"
_SET_TIME = "UPDATE jobs SET at = ? WHERE id = ? AND state = ? AND at IS NULL"
_SET_ATTEMPTS = """
UPDATE jobs SET attempts = ? WHERE id = ? AND attempts = ? AND token = ?
"""
_RELEASE = "UPDATE jobs SET held = 0 WHERE id = ? AND held <> 0"
_ADD_TYPE = "INSERT OR IGNORE INTO types (name) VALUES (?)"
_RAISE_FENCE = "UPDATE meta SET value = max(value, ?) WHERE name = 'fence'"
_ADD_WORKER = "INSERT OR IGNORE INTO workers (name, deadline) VALUES (?, 0)"
_TAKE_KEY = """
INSERT INTO uniques (type, key, job_id)
SELECT type, unique_key, id FROM jobs WHERE id = ?
    AND state NOT IN ('complete', 'failed', 'cancelled')
ON CONFLICT DO UPDATE SET job_id = excluded.job_id, until = NULL
"""


def rows_after(db: sqlite3.Connection, last: int) -> list[JobRow]:
    """Return the next rows to be checked, in the order of their ids."""
    return sorted(fetch(db, JobRow, _CHUNK, last), key=lambda row: row.id)


class JobChecks:
    """The checks of some rows, on one snapshot: they cannot change in between."""

    def __init__(self, db: sqlite3.Connection, rows: Sequence[JobRow]) -> None:
        self._rows = rows
        ends = (rows[0].id, rows[-1].id)
        self._types = {row[0] for row in db.execute(_TYPES)}
        self._fence: int = db.execute(_FENCE).fetchone()[0]
        self._workers = {row[0]: row[1:] for row in db.execute(_WORKERS, ends)}
        self._keys = {row[0]: row[1:] for row in db.execute(_KEYS, ends)}
        self._unlinked = {row[0] for row in db.execute(_UNLINKED, ends)}

    def __iter__(self) -> Iterator[SqliteFinding]:
        for row in self._rows:
            if row.state not in set(State):
                yield SqliteFinding("bad-state", f"its state is {row.state!r}", row.id)
                continue
            yield from self._check_record(row)
            yield from self._check_columns(row)
            yield from self._check_run(row)
            yield from self._check_attempts(row)
            yield from self._check_key(row)

    def _check_record(self, row: JobRow) -> Iterator[SqliteFinding]:
        if not is_readable(row):
            message = "its record (what to run, or its history) cannot be read"
            yield SqliteFinding("bad-record", message, row.id)
        if row.type not in self._types:
            yield SqliteFinding(
                "unknown-type",
                f"its type {row.type!r} is not in the list of types",
                row.id,
                "add the type",
                statement(_ADD_TYPE, row.type),
            )

    def _check_columns(self, row: JobRow) -> Iterator[SqliteFinding]:
        if row.state != State.ACTIVE and row.token:
            yield SqliteFinding(
                "bad-state",
                f"it is {row.state} and has a run",
                row.id,
                "forget the run",
                statement(_FORGET_RUN, row.id),
            )
        if row.at is None and (row.state == State.DELAYED or row.state in FINAL):
            job = shown(row)
            at = job.history[-1].at if job.history else row.created_at
            yield SqliteFinding(
                "bad-state",
                f"it is {row.state} and has no time",
                row.id,
                "set the time from its history",
                statement(_SET_TIME, at, row.id, row.state),
            )
        if row.held and (row.state != State.WAITING or row.group_key is None):
            yield SqliteFinding(
                "held-drift",
                "it is held back for a group and is not waiting in one",
                row.id,
                "release it",
                statement(_RELEASE, row.id),
            )
        if row.id in self._unlinked:
            message = "it is blocked and waits for no job"
            yield SqliteFinding(
                "stuck-blocked",
                message,
                row.id,
                "release it",
                partial(_release, row.id),
            )

    def _check_run(self, row: JobRow) -> Iterator[SqliteFinding]:
        if row.state != State.ACTIVE:
            return
        worker, is_known = self._workers[row.id]
        abandon = statement(_ABANDON, row.id, row.token)
        if not row.token:
            message = "it is active and has no run"
            yield SqliteFinding("bad-state", message, row.id, "reclaim it", abandon)
            return
        try:
            run = Run.read(row.token)
        except ValueError:
            message = f"its run {row.token!r} cannot be read"
            yield SqliteFinding("bad-run", message, row.id, "reclaim it", abandon)
            return
        if worker not in ("", run.worker):
            message = f"it runs at {run.worker!r} and is listed at {worker!r}"
            yield SqliteFinding("bad-run", message, row.id, "reclaim it", abandon)
        elif worker and not is_known:
            yield SqliteFinding(
                "no-lease",
                f"it runs at {worker!r}, an unknown worker",
                row.id,
                "count the worker as lost",
                statement(_ADD_WORKER, worker),
            )
        if run.fence > self._fence:
            yield SqliteFinding(
                "fence-behind",
                f"its fence {run.fence} is above the last one given, {self._fence}",
                row.id,
                "raise the last fence",
                statement(_RAISE_FENCE, run.fence),
            )

    def _check_attempts(self, row: JobRow) -> Iterator[SqliteFinding]:
        try:
            recorded = shown(row).attempts - (1 if row.token else 0)
        except (ValueError, IndexError):
            return
        if row.attempts != recorded:
            yield SqliteFinding(
                "attempts-range",
                f"it has spent {row.attempts} attempts and its history has {recorded}",
                row.id,
                "count those in its history",
                statement(_SET_ATTEMPTS, recorded, row.id, row.attempts, row.token),
            )

    def _check_key(self, row: JobRow) -> Iterator[SqliteFinding]:
        if row.unique_key is None or row.state not in UNFINISHED:
            return
        holder, until, state = self._keys[row.id]
        if holder == row.id and until is None:
            return
        if holder not in (None, row.id) and state in UNFINISHED:
            message = f"it has the unique key {row.unique_key!r}, like job {holder}"
            yield SqliteFinding("two-unique", message, row.id)
            return
        yield SqliteFinding(
            "unique-drift",
            f"it does not hold its unique key {row.unique_key!r}",
            row.id,
            "take the key",
            statement(_TAKE_KEY, row.id),
        )


def _release(job_id: int, tx: Transaction) -> None:
    dependencies.release(tx, [job_id])
