"""Changes of jobs: move, cancel, remove, edit and clear."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.draft import check_meta
from kue.model.events import Kind
from kue.model.job import MOVES_BY_HAND, Cancelled, State
from kue.store.sqlite import (
    dependencies,
    new_links,
    ranking,
    removal,
    transitions,
    unique_keys,
)
from kue.store.sqlite.rows import StateRow, rows_of, shown, state_rows_of, story_of
from kue.store.sqlite.verb_transaction import Transaction, as_json, entered
from kue.store.sqlite.verbs.pages import first_ids
from kue.store.values import (
    NOTHING_SEEN,
    UNSEEN,
    Change,
    ExpectedState,
    MoveRequest,
    RemoveRequest,
    Reply,
    Result,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_MOVE = """
UPDATE jobs SET state = ?, at = ?, held = 0, held_by = NULL WHERE id = ?
"""
_ASK = "UPDATE jobs SET cancelling = ? WHERE id = ?"
_AT_MOST = "SELECT unique_at_most FROM jobs WHERE id = ?"
_BODY = "SELECT body FROM jobs WHERE id = ?"
_PRIORITY = "SELECT priority FROM jobs WHERE id = ?"
_EDIT = "UPDATE jobs SET body = ?, priority = coalesce(?, priority) WHERE id = ?"

#: A body's fields, each as its original JSON: an edit changes nothing else.
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_meta = msgspec.json.Decoder(dict[str, str]).decode


def move(tx: Transaction, request: MoveRequest) -> list[Reply]:
    return [_move(tx, job_id, request) for job_id in request.job_ids]


def _move(tx: Transaction, job_id: int, request: MoveRequest) -> Reply:
    to, seen = request.to, request.seen.get(job_id, UNSEEN)
    at = request.at if to is State.DELAYED else None
    row = _state_row_of(tx, job_id, seen)
    if row is None:
        return Reply(Result.GONE)
    state = row.known_state
    if _is_past(tx, row, seen):
        return (
            Reply(Result.ALREADY) if seen.ending else Reply(Result.REFUSED, state=state)
        )
    if state is to and to is not State.DELAYED:
        return Reply(Result.ALREADY)
    is_allowed = request.states is None or state in request.states
    if not is_allowed or to not in MOVES_BY_HAND[state]:
        return Reply(Result.REFUSED, state=state)
    if to is State.BLOCKED:
        return _block(tx, row)
    if state.is_final:
        return _restart(tx, row, to, at)
    if state is State.BLOCKED:
        removal.unlink(tx, [job_id])
    if to is State.WAITING:
        ranking.enter(tx, row.type, [job_id])
    tx.run(_MOVE, to, at, job_id)
    tx.moved(row.type, state, to)
    if row.group_key is not None:
        tx.groups.add((row.type, row.group_key))
    tx.limits.update(row.limit_refs)
    kind = Kind.PROMOTION if to is State.WAITING else Kind.UPDATE
    tx.publish(kind, job_id, row.type, row.attempts)
    entered(tx, row.type, to)
    return Reply(Result.DONE)


def _block(tx: Transaction, row: StateRow) -> Reply:
    """Have a finished job wait again for its parents that have not succeeded."""
    job = shown(rows_of(tx.db, [row.id])[0])
    standing = new_links.standing_again(tx, job)
    if standing.state is State.CANCELLED:
        return Reply(Result.REFUSED, state=row.known_state)
    to, at = State.BLOCKED, job.spec.at
    if standing.state is not State.BLOCKED:
        due = tx.now + job.spec.delay if at is None else at
        to = State.DELAYED if due > tx.now else State.WAITING
        at = due if to is State.DELAYED else None
    reply = _restart(tx, row, to, at)
    if reply.word is Result.DONE:
        new_links.link_again(tx, row.id, standing.parents)
    return reply


def _restart(tx: Transaction, row: StateRow, to: State, at: int | None) -> Reply:
    if row.unique_key is not None:
        held = unique_keys.holder_of(tx, row.type, row.unique_key)
        if held is not None and held.id != row.id:
            return Reply(Result.HELD, holder=held.id)
        at_most: int = tx.one(_AT_MOST, row.id)
        until = unique_keys.until_of(row.created_at, at_most)
        if until is None or until > tx.now:
            unique_keys.take(tx, row.type, row.unique_key, row.id, until=until)
    transitions.restart(tx, row, to, at)
    return Reply(Result.DONE)


def cancel(
    tx: Transaction,
    job_ids: Sequence[int],
    *,
    reason: str = "",
    seen: Mapping[int, ExpectedState] = NOTHING_SEEN,
) -> list[Reply]:
    """Cancel jobs, or ask running ones to end; each sees what the last one did."""
    replies = []
    for job_id in job_ids:
        replies.append(_cancel(tx, job_id, reason, seen.get(job_id, UNSEEN)))
        dependencies.notify_dependants(tx)
    return replies


def _cancel(tx: Transaction, job_id: int, reason: str, seen: ExpectedState) -> Reply:
    row = _state_row_of(tx, job_id, seen)
    if row is None:
        return Reply(Result.GONE)
    match row.known_state:
        case State.CANCELLED:
            return Reply(Result.ALREADY)
        case State.COMPLETE | State.FAILED as state:
            return Reply(Result.REFUSED, state=state)
        case State.ACTIVE if row.cancelling is not None:
            return Reply(Result.ALREADY)
        case State.ACTIVE:
            tx.run(_ASK, reason, job_id)
            return Reply(Result.ASKED)
    transitions.end(tx, [(row, Cancelled(reason))])
    return Reply(Result.DONE)


def remove(tx: Transaction, request: RemoveRequest) -> list[Reply]:
    """Delete jobs; each sees what the last one did."""
    replies = []
    for job_id in request.job_ids:
        replies.append(_remove(tx, job_id, request))
        dependencies.notify_dependants(tx)
    return replies


def _remove(tx: Transaction, job_id: int, request: RemoveRequest) -> Reply:
    seen = request.seen.get(job_id, UNSEEN)
    row = _state_row_of(tx, job_id, seen)
    if row is None:
        return Reply(Result.GONE)
    state = row.known_state
    is_allowed = request.states is None or state in request.states
    if state is State.ACTIVE and not request.force:
        is_allowed = False
    if not is_allowed or _is_past(tx, row, seen):
        return Reply(Result.REFUSED, state=state)
    removal.remove(tx, [row], free_keys=True)
    return Reply(Result.DONE)


def update(tx: Transaction, changes: Sequence[Change]) -> list[Result]:
    return [_update(tx, change) for change in changes]


def _update(tx: Transaction, change: Change) -> Result:
    row = _state_row_of(tx, change.job_id, change.seen)
    if row is None:
        return Result.GONE
    if _is_past(tx, row, change.seen):
        return Result.REFUSED
    body = tx.one(_BODY, change.job_id)
    fields = _fields(body)
    for name in ("data", "tags", "max_attempts"):
        value = getattr(change, name)
        if value is not msgspec.UNSET:
            fields[name] = msgspec.Raw(msgspec.json.encode(value))
    if change.data is not msgspec.UNSET:
        fields.pop("sealed", None)
        if change.sealed:
            fields["sealed"] = msgspec.Raw(msgspec.json.encode(change.sealed))
    if change.meta is not msgspec.UNSET:
        known = _meta(fields.get("meta", b"{}"))
        merged = check_meta({**known, **change.meta})
        fields["meta"] = msgspec.Raw(msgspec.json.encode(merged))
    priority = None if change.priority is msgspec.UNSET else change.priority
    old: int = tx.one(_PRIORITY, change.job_id)
    tx.run(_EDIT, as_json(fields), priority, change.job_id)
    if priority is not None and priority != old:
        ranking.change_priority(tx, row, old, priority)
    tx.publish(Kind.UPDATE, row.id, row.type, row.attempts)
    return Result.DONE


def _state_row_of(tx: Transaction, job_id: int, seen: ExpectedState) -> StateRow | None:
    """Return the row of the job the caller means; None if the id was reused."""
    row = state_rows_of(tx.db, [job_id]).get(job_id)
    if row is None or seen.created_at not in (None, row.created_at):
        return None
    return row


def _is_past(tx: Transaction, row: StateRow, seen: ExpectedState) -> bool:
    """Return whether it ended, was restarted or ended again since it was read."""
    if seen.ending is None:
        return False
    is_final = row.known_state.is_final
    if not (seen.ending and is_final):
        return is_final or bool(seen.ending)
    last = story_of(tx.db, row.id).rpartition(b"\n")[2]
    return not last.startswith(seen.ending.encode())


def clear(
    tx: Transaction, type: str | None, states: Iterable[State], limit: int
) -> int:
    rows: list[StateRow] = []
    for state in dict.fromkeys(states):
        room = limit - len(rows)
        if room > 0:
            ids = first_ids(tx.db, state, type, room)
            rows += state_rows_of(tx.db, ids).values()
    removal.remove(tx, rows, free_keys=True)
    return len(rows)
