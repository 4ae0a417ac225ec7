"""Streams of jobs: chunks are appended by runs, and read from any position."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.events import Kind
from kue.model.job import State
from kue.model.stream import BEGINNING, Chunk, Position, SentChunks
from kue.store.codec import read_chunk
from kue.store.sqlite.rows import StateRow, state_rows_of
from kue.store.sqlite.verb_transaction import Transaction, as_json
from kue.store.values import MAX_BATCH, MAX_CALL_BYTES, Result

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Sequence

_LAST = """
SELECT run, position FROM chunks WHERE job_id = ? ORDER BY position DESC LIMIT 1
"""
_APPEND = """
INSERT INTO chunks (job_id, position, run, attempt, at, value)
VALUES (?, ?, ?, ?, ?, ?)
"""
_FORGET = "DELETE FROM chunks WHERE job_id IN (SELECT value FROM json_each(?))"
_MARK = "UPDATE jobs SET has_chunks = 1 WHERE id = ? AND has_chunks = 0"
_FIRST = "SELECT run FROM chunks WHERE job_id = ? ORDER BY position LIMIT 1"
_READ = """
SELECT run, position, attempt, at, value FROM chunks
WHERE job_id = ? AND position >= ? ORDER BY position LIMIT ?
"""


def append_chunks(tx: Transaction, sent: Sequence[SentChunks]) -> list[Result]:
    ids = [one.job.id for one in sent]
    rows, watched = state_rows_of(tx.db, ids), tx.watched(ids)
    words: list[Result] = []
    for one in sent:
        word, number = _append(tx, rows.get(one.job.id), one)
        words.append(word)
        if number and one.job.id in watched:
            _publish(tx, one, number)
    return words


def _append(
    tx: Transaction, row: StateRow | None, sent: SentChunks
) -> tuple[Result, int]:
    """Append what is new; return the result, and how many chunks that were."""
    if row is None:
        return Result.GONE, 0
    job, start, values = sent
    if row.state != State.ACTIVE or row.token != job.token:
        return Result.LOST, 0
    last = tx.db.execute(_LAST, (job.id,)).fetchone()
    is_same = last is not None and last[0] == job.fence
    count = last[1] + 1 if is_same else 0
    if count < start:
        return Result.REFUSED, 0
    # A call that is repeated may find some of its chunks, or all.
    new = values[count - start :]
    if new and not is_same:
        forget(tx, [job.id])
        tx.run(_MARK, job.id)
    rows = [
        (job.id, position, job.fence, job.attempts, tx.now, bytes(value).decode())
        for position, value in enumerate(new, count)
    ]
    tx.db.executemany(_APPEND, rows)
    return Result.DONE, len(new)


def _publish(tx: Transaction, sent: SentChunks, number: int) -> None:
    """Announce the last *number* chunks, to those who subscribe to the job itself."""
    job, start, values = sent
    first = start + len(values) - number
    detail: dict[str, object] = {"run": job.fence, "start": first, "number": number}
    if job.spec.remove_on_complete:
        detail["values"] = values[-number:]
    tx.publish(Kind.CHUNK, job.id, job.type, job.attempts, detail)


def chunks(
    db: sqlite3.Connection,
    job_id: int,
    after: Position = BEGINNING,
    *,
    limit: int = MAX_BATCH,
) -> list[Chunk]:
    first = db.execute(_FIRST, (job_id,)).fetchone()
    is_same = first is not None and first[0] == after.run
    start = after.start if is_same else 0
    found: list[Chunk] = []
    size = 0
    for run, position, attempt, at, value in db.execute(_READ, (job_id, start, limit)):
        found.append(read_chunk(run, position, attempt, at, value))
        size += len(value)
        if size >= MAX_CALL_BYTES:
            break
    return found


def forget(tx: Transaction, ids: Iterable[int]) -> None:
    """Delete the streams of jobs."""
    tx.run(_FORGET, as_json(list(ids)))
