"""
State transitions: jobs change state and get a line in their history.

Every ending of a run, every cancelled, expired and restarted job passes through here,
so that what belongs to a transition (the unique key, counts, retention, dependants, the
group's slot) is done in one place.  Jobs with the same transition share one statement.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kue.model.events import Kind
from kue.model.job import (
    FINAL,
    MAX_HISTORY,
    Cancelled,
    Completed,
    Ending,
    Error,
    Failed,
    Released,
    Retried,
    Stalled,
    State,
)
from kue.model.retry_policy import after_cancel
from kue.model.steps import MAX_SUSPENSIONS
from kue.store.codec import fingerprint_in, tail_of
from kue.store.sqlite import ranking, removal, step_rows, unique_keys
from kue.store.sqlite.rows import StateRow, story_of
from kue.store.sqlite.verb_transaction import Transaction, as_json, entered
from kue.store.sqlite.verbs import failures

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The line of a finished job that was requeued.
_RESTARTED = '"outcome":"restarted"}'

#: Adds the same line as `kue.store.codec.line_of`: token, time, and the given tail.
_LINE = """
iif(story = '', '', story || char(10))
|| '{"run":"' || iif(:is_run, token, '') || '","at":' || :now || ',' || :taken
"""
_STEP = f"""
UPDATE jobs SET state = :to, at = :at, story = {_LINE} || step.value,
    attempts = attempts + :spent, stalls = stalls + :stalled,
    retain_until = iif(:is_final, :now + retention, NULL),
    held = 0, held_by = NULL, token = '', worker = '', ttl_at = NULL, progress = 0,
    progress_data = NULL, cancelling = NULL
FROM json_each(:tails) AS step WHERE jobs.id = CAST(step.key AS INTEGER)
"""
_RESTART = f"""
UPDATE jobs SET state = :to, at = :at, story = {_LINE} || :tail, attempts = 0,
    stalls = 0, retain_until = NULL
WHERE id = :id
"""
#: How the line of a run ends whose job sleeps, or waits for a signal, since.
_SUSPENSION = re.compile(r'"suspended":"[^"]*"}$')
_CUT = "UPDATE jobs SET story = ? WHERE id = ?"

#: Endings of runs that count in the statistics.
_MEASURED = (Completed, Retried, Failed)
_FINAL_STATES: dict[type[Ending], State] = {
    Completed: State.COMPLETE,
    Failed: State.FAILED,
    Cancelled: State.CANCELLED,
}


class Transition(NamedTuple):
    """The new state and what is counted: the same for all jobs of a statement."""

    to: State
    at: int | None
    #: Whether the job ran, so that its line has the token.
    is_run: bool
    spent: bool = False
    stalled: bool = False


#: A job, how it ends, and when its run began (None if it is not running).
_EndedJob = tuple[StateRow, Ending, int | None]


def end(
    tx: Transaction, endings: Iterable[tuple[StateRow, Ending]], *, taken: str = ""
) -> None:
    """
    End runs, or jobs that are not running: add a line and move each to its next state.

    *taken* is what had expired ("lease" or "ttl") when maintenance ended the run of
    another worker.  A job that is to be cancelled is not requeued, but cancelled.
    """
    by_transition: dict[Transition, list[_EndedJob]] = {}
    for row, ending in endings:
        if row.cancelling is not None and isinstance(
            ending, Retried | Released | Stalled
        ):
            ending = after_cancel(row.cancelling)
        began, moved = row.began, ending
        if isinstance(ending, Released) and ending.suspended is not msgspec.UNSET:
            moved = _suspended(tx, row, ending, ending.suspended)
        transition = _transition(tx.now, moved, began is not None)
        by_transition.setdefault(transition, []).append((row, ending, began))
    for transition, ended in by_transition.items():
        _measure(tx, ended)
        if tx.has_subscribers:
            _publish(tx, ended)
        if transition.to is State.FAILED:
            failures.report(tx, [row for row, _, _ in ended])
        _apply(tx, transition, ended, taken)


def _suspended(
    tx: Transaction, row: StateRow, ending: Released, field: str
) -> Released:
    """Begin the sleep or wait of a run; return its ending with the delay it has."""
    if row.has_steps:
        _cut_suspensions(tx, row)
    delay = step_rows.suspend(tx, row, field, ending.delay)
    return msgspec.structs.replace(ending, delay=delay)


def park(tx: Transaction, rows: Iterable[StateRow], message: str) -> None:
    """Park jobs whose record cannot be used: they fail, with an event that explains."""
    failed = Failed(Error("DamagedRecord", message))
    ended: list[_EndedJob] = [(row, failed, None) for row in rows]
    _measure(tx, ended)
    for row, _, _ in ended:
        tx.publish(Kind.ERROR, row.id, row.type, row.attempts, {"message": message})
    _apply(tx, Transition(State.FAILED, tx.now, is_run=False), ended, "")


def restart(tx: Transaction, row: StateRow, to: State, at: int | None) -> None:
    """Requeue a finished job, which has already taken its unique key."""
    if row.lines >= MAX_HISTORY:
        _cut_story(tx, row)
    values = {"id": row.id, "to": to, "at": at, "now": tx.now, "is_run": False}
    if to is State.WAITING:
        ranking.enter(tx, row.type, [row.id], ran_before=False)
    if row.has_steps:
        step_rows.restart(tx, row)
    tx.db.execute(_RESTART, {**values, "taken": "", "tail": _RESTARTED})
    tx.count(row.type, row.state, -1, own=row.retain_until is not None)
    tx.count(row.type, to, 1)
    tx.error_changes.remove(row.type, row.fingerprint)
    tx.flow_changes.move([row], to)
    tx.publish(Kind.ENQUEUE, row.id, row.type, 0, {"state": to})
    entered(tx, row.type, to)


def _transition(now: int, ending: Ending, is_run: bool) -> Transition:
    match ending:
        case Completed() | Failed() | Cancelled():
            return Transition(_FINAL_STATES[type(ending)], now, is_run, is_run)
        case Retried() | Released() | Stalled():
            at = now + ending.delay if ending.delay > 0 else None
            to = State.WAITING if at is None else State.DELAYED
            stalled = isinstance(ending, Stalled)
            is_free = stalled or (isinstance(ending, Released) and not ending.counts)
            return Transition(to, at, is_run, is_run and not is_free, stalled)


def _apply(
    tx: Transaction, transition: Transition, ended: list[_EndedJob], taken: str
) -> None:
    """Apply one transition to jobs, with everything that belongs to it."""
    rows = [row for row, _, _ in ended]
    is_final = transition.to in FINAL
    removal.leave_states(tx, rows)
    blocked = [row.id for row in rows if row.state == State.BLOCKED]
    if blocked:
        removal.unlink(tx, blocked)
    tx.flow_changes.move(rows, transition.to)
    if is_final:
        tx.ended.extend((row.id, transition.to) for row in rows)
    removed = [row for row in rows if row.remove_on_complete]
    if removed and transition.to is State.COMPLETE:
        ended = [item for item in ended if not item[0].remove_on_complete]
        tx.flow_changes.remove(removed, State.COMPLETE)
        removal.erase(tx, removed)
        for row in removed:
            tx.publish(Kind.REMOVE, row.id, row.type, row.attempts + 1)
    if ended:
        _enter_state(tx, transition, [row for row, _, _ in ended])
        tails = {row.id: tail_of(ending).decode() for row, ending, _ in ended}
        if transition.to is State.FAILED:
            _note_errors(tx, ended, tails)
        values = {
            **transition._asdict(),
            "is_final": is_final,
            "now": tx.now,
            "taken": f'"taken":"{taken}",' if taken else "",
            "tails": as_json(tails),
        }
        if transition.to is State.WAITING:
            _rank(tx, [row for row, _, _ in ended])
        tx.db.execute(_STEP, values)
    keyed = [row for row in rows if row.unique_key is not None]
    if keyed and is_final:
        unique_keys.release(tx, keyed)


def _rank(tx: Transaction, rows: list[StateRow]) -> None:
    for type in {row.type for row in rows}:
        ids = [row.id for row in rows if row.type == type]
        # Also if the run does not count as an attempt.
        ranking.enter(tx, type, ids, ran_before=True)


def _note_errors(
    tx: Transaction, ended: list[_EndedJob], tails: dict[int, str]
) -> None:
    for row, ending, _ in ended:
        if isinstance(ending, Failed):
            mark = fingerprint_in(tails[row.id])
            tx.error_changes.add(row.type, mark, row.id, ending.error, tx.now)


def _enter_state(tx: Transaction, transition: Transition, rows: list[StateRow]) -> None:
    is_final = transition.to in FINAL
    after = Counter((s.type, is_final and s.retention is not None) for s in rows)
    for (type, own), n in after.items():
        tx.count(type, transition.to, n, own=own)
        entered(tx, type, transition.to)
    for row in rows:
        if row.lines >= MAX_HISTORY:
            _cut_story(tx, row)


def _measure(tx: Transaction, ended: list[_EndedJob]) -> None:
    """Add to the statistics: completed and failed jobs, and the time runs took."""
    for row, ending, began in ended:
        if not isinstance(ending, _MEASURED):
            continue
        stats = tx.stats[row.type]
        took = 0 if began is None else max(0, tx.now - began)
        stats.run_ms += took
        if isinstance(ending, Completed):
            stats.complete += 1
            stats.work_ms += took
        elif isinstance(ending, Failed):
            stats.failed += 1


def _publish(tx: Transaction, ended: list[_EndedJob]) -> None:
    for row, ending, began in ended:
        kind, detail = _event(ending)
        if row.remove_on_complete and isinstance(ending, Completed):
            # It can be read nowhere else.
            detail = {"result": ending.result}
        attempt = row.attempts + (began is not None)
        tx.publish(kind, row.id, row.type, attempt, detail)


def _cut_story(tx: Transaction, row: StateRow) -> None:
    """Drop the oldest lines, to make room for one more."""
    story = story_of(tx.db, row.id).decode(errors="replace")
    lines = story.split("\n")[1 - MAX_HISTORY :]
    tx.run(_CUT, "\n".join(lines), row.id)


def _cut_suspensions(tx: Transaction, row: StateRow) -> None:
    """Drop the oldest line of a suspension, to make room for one more."""
    lines = story_of(tx.db, row.id).decode(errors="replace").split("\n")
    found = [line for line in lines if _SUSPENSION.search(line)]
    if len(found) >= MAX_SUSPENSIONS:
        lines.remove(found[0])
        tx.run(_CUT, "\n".join(lines), row.id)


def _event(ending: Ending) -> tuple[Kind, dict[str, Any]]:
    match ending:
        case Completed():
            return Kind.COMPLETE, {}
        case Cancelled(reason):
            return Kind.CANCELLED, {"reason": reason}
        case Failed(error):
            return Kind.FAILED, {"kind": error.kind, "message": error.message}
        case Retried(error, delay):
            detail = {"kind": error.kind, "message": error.message, "delay": delay}
            return Kind.FAILED_ATTEMPT, detail
        case Released(delay, _, reason, suspended):
            named = {"suspended": suspended} if isinstance(suspended, str) else {}
            return Kind.RELEASE, {"reason": reason, "delay": delay, **named}
        case Stalled(error, delay):
            return Kind.RELEASE, {"reason": error.message, "delay": delay}
