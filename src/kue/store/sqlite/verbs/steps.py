"""Durable steps of jobs, and signals to them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.events import Kind
from kue.model.job import State
from kue.model.names import quote
from kue.model.steps import MAX_SIGNALS, MAX_STEPS, JobSteps, Signal, Step
from kue.store.sqlite import ranking
from kue.store.sqlite.rows import StateRow, state_rows_of
from kue.store.sqlite.step_rows import StepRows, entry_of
from kue.store.sqlite.verb_transaction import Transaction, as_json, entered
from kue.store.step_record import data_of, field_of, read_step, read_steps
from kue.store.values import Reply, Result

if TYPE_CHECKING:
    import sqlite3

    from msgspec import Raw

    from kue.model.job import Job

_ALL = "SELECT field, value FROM steps WHERE job_id = ?"
_WAKE = "UPDATE jobs SET state = 'waiting', at = NULL WHERE id = ?"


def steps(db: sqlite3.Connection, job_id: int) -> JobSteps:
    return read_steps(job_id, db.execute(_ALL, (job_id,)).fetchall())


def record_step(
    tx: Transaction, job: Job, name: str, result: Raw, *, duration: int
) -> Result:
    row = _row_of(tx, job)
    if isinstance(row, Result):
        return row
    rows, field = StepRows(tx, job.id), field_of("step", name)
    if rows.get(field):
        return Result.ALREADY
    if rows.number("steps") >= MAX_STEPS:
        return Result.REFUSED
    rows.add_step(field, f"{duration}\t{bytes(result).decode()}")
    tx.publish(Kind.UPDATE, row.id, row.type, row.attempts + 1)
    return Result.DONE


def receive(
    tx: Transaction, job: Job, signal: str, number: int
) -> Step | Result | None:
    row = _row_of(tx, job)
    if isinstance(row, Result):
        return row
    rows, field = StepRows(tx, job.id), field_of("wait", signal, number)
    entry = entry_of(rows.get(field))
    counts = rows.counts(quote(signal))
    has_signal = counts.sent > counts.received
    is_over = entry is not None and entry[0] <= tx.now
    if not (entry is not None and entry[1]) and (has_signal or is_over):
        if entry is None:
            rows.add_step(field, tx.now)
        received = counts.received + has_signal
        which = received if has_signal else ""
        rows.set(field, f"{rows.get(field)}\t{tx.now}\t{which}")
        rows.set_counts(quote(signal), counts._replace(received=received, wait=0))
        tx.publish(Kind.UPDATE, row.id, row.type, row.attempts + 1)
    return _wait(rows, field, signal)


def _wait(rows: StepRows, field: str, signal: str) -> Step | None:
    value = rows.get(field)
    if not value:
        return None
    entry, data = entry_of(value), None
    if entry is not None and entry[2] is not None:
        data = data_of(rows.get(field_of("signal", signal, entry[2])))
    return read_step(field, value, data)


def signal(
    tx: Transaction, job_id: int, signal: Signal, *, created_at: int | None = None
) -> Reply:
    row = state_rows_of(tx.db, [job_id]).get(job_id)
    if row is None or created_at not in (None, row.created_at):
        return Reply(Result.GONE)
    if row.known_state.is_final:
        return Reply(Result.REFUSED, row.known_state)
    rows = StepRows(tx, job_id)
    if rows.get(f"id:{signal.id}"):
        return Reply(Result.ALREADY)
    if rows.number("sent") >= MAX_SIGNALS:
        return Reply(Result.REFUSED)
    _send(tx, row, rows, signal)
    return Reply(Result.DONE)


def _send(tx: Transaction, row: StateRow, rows: StepRows, signal: Signal) -> None:
    name = quote(signal.name)
    counts = rows.counts(name)
    is_awaited = counts.wait > 0 and counts.sent == counts.received
    number = counts.sent + 1
    sent, data = rows.number("sent") + 1, as_json(signal.data)
    rows.set("sent", sent)
    rows.set(field_of("signal", signal.name, number), f"{sent}\t{tx.now}\t{data}")
    rows.set(f"id:{signal.id}", number)
    rows.set_counts(name, counts._replace(sent=number))
    if is_awaited and row.state == State.DELAYED:
        _wake(tx, row)
    else:
        tx.publish(Kind.UPDATE, row.id, row.type, row.attempts)


def _wake(tx: Transaction, row: StateRow) -> None:
    ranking.enter(tx, row.type, [row.id])
    tx.run(_WAKE, row.id)
    tx.moved(row.type, State.DELAYED, State.WAITING)
    tx.publish(Kind.PROMOTION, row.id, row.type, row.attempts)
    entered(tx, row.type, State.WAITING)


def _row_of(tx: Transaction, job: Job) -> StateRow | Result:
    """Return the row of a running job, if the run is the current one."""
    row = state_rows_of(tx.db, [job.id]).get(job.id)
    if row is None:
        return Result.GONE
    is_current = row.state == State.ACTIVE and job.token == row.token
    return row if is_current else Result.LOST
