"""Progress and log lines of jobs, and the start of runs that were held back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.events import Kind
from kue.model.job import State
from kue.store.codec import begun
from kue.store.sqlite.rows import state_rows_of
from kue.store.sqlite.verb_transaction import Transaction, as_json
from kue.store.sqlite.verbs import limits
from kue.store.values import MAX_LOG_LINES, MAX_LOG_TEXT, Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.model.job import Job
    from kue.store.sqlite.rows import StateRow
    from kue.store.values import LogLine, Progress

_PROGRESS = """
UPDATE jobs SET progress = ?, progress_data = ?,
    ttl_at = CASE WHEN ttl > 0 THEN ? + ttl END
WHERE id = ?
"""
_CREATED = "SELECT created_at FROM jobs WHERE id = ?"
_BEGIN = """
UPDATE jobs SET token = ?, ttl_at = CASE WHEN ttl > 0 THEN ? + ttl END WHERE id = ?
"""
_LAST = "SELECT coalesce(max(line), -1) FROM logs WHERE job_id = ?"
#: Bound one by one: JSON in SQLite ends a text at a NUL, and a line may contain one.
_APPEND = """
INSERT INTO logs (job_id, line, at, level, attempt, text) VALUES (?, ?, ?, ?, ?, ?)
"""
_CUT = "DELETE FROM logs WHERE job_id = ? AND line <= ?"


def progress(tx: Transaction, updates: Sequence[Progress]) -> list[Result]:
    rows = state_rows_of(tx.db, [update.job_id for update in updates])
    return [_progress(tx, rows.get(update.job_id), update) for update in updates]


def _progress(tx: Transaction, row: StateRow | None, update: Progress) -> Result:
    if row is None or update.created_at not in (None, row.created_at):
        return Result.GONE
    if update.token and update.token != row.token:
        return Result.LOST
    if row.state != State.ACTIVE:
        return Result.REFUSED
    data = None if update.data is None else as_json(update.data)
    tx.run(_PROGRESS, update.percent, data, tx.now, row.id)
    detail = {"progress": update.percent, "data": update.data}
    tx.publish(Kind.PROGRESS, row.id, row.type, row.attempts + 1, detail)
    return Result.DONE


def begin(tx: Transaction, job: Job, mark: str) -> Job | Result:
    """Start a run that was held back, if its fence is current."""
    row = state_rows_of(tx.db, [job.id]).get(job.id)
    fence = job.token.partition(":")[0]
    if row is None or not row.token.startswith(f"{fence}:"):
        return Result.LOST
    rest = begun(job, mark)
    # A run that has begun goes on: this is the same call again.
    is_new = row.token.split(":", 2)[2] != rest
    paused = (pause.type for pause in limits.pauses(tx.db, tx.now))
    if is_new and any(type in (None, job.type) for type in paused):
        return Result.REFUSED
    token = f"{fence}:{tx.now}:{rest}"
    tx.run(_BEGIN, token, tx.now, job.id)
    return msgspec.structs.replace(job, token=token)


def log(
    tx: Transaction, job_id: int, lines: Sequence[LogLine], created_at: int | None
) -> Result:
    row = tx.db.execute(_CREATED, (job_id,)).fetchone()
    if row is None or created_at not in (None, row[0]):
        return Result.GONE
    last: int = tx.one(_LAST, job_id)
    kept = lines[-MAX_LOG_LINES:]
    rows = [
        (job_id, number, tx.now, _plain(line.level), line.attempt, _plain(line.text))
        for number, line in enumerate(kept, last + 1)
    ]
    tx.db.executemany(_APPEND, rows)
    tx.run(_CUT, job_id, last + len(kept) - MAX_LOG_LINES)
    return Result.DONE


def _plain(text: str) -> str:
    # Bytes that were not UTF-8 must not cost a job its log.
    return text[:MAX_LOG_TEXT].encode("utf-8", "backslashreplace").decode()
