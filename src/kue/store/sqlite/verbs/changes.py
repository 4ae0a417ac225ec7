"""What people and programs do to jobs: move, cancel, remove, edit, clear."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.events import Kind
from kue.model.job import MOVES_BY_HAND, Cancelled, State
from kue.store.sqlite import dependencies, removal, transitions, unique_keys
from kue.store.sqlite.rows import StateRow, slips_of
from kue.store.sqlite.transaction import Transaction, as_json, entered
from kue.store.sqlite.verbs.pages import first_ids
from kue.store.values import UNSEEN, Change, ExpectedState, Reply, Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

_MOVE = "UPDATE jobs SET state = ?, at = ?, held = 0 WHERE id = ?"
_ASK = "UPDATE jobs SET cancelling = ? WHERE id = ?"
_BODY = "SELECT body FROM jobs WHERE id = ?"
_STORY = "SELECT CAST(story AS BLOB) FROM jobs WHERE id = ?"
_EDIT = "UPDATE jobs SET body = ?, priority = coalesce(?, priority) WHERE id = ?"
_PAUSE = """
INSERT INTO pauses (type, at, reason, who, until) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET at = excluded.at, reason = excluded.reason,
    who = excluded.who, until = excluded.until
"""
_IS_PAUSED = """
SELECT EXISTS (SELECT 1 FROM pauses
               WHERE type = ? AND (until IS NULL OR until > ?))
"""

#: A body's fields, each as the JSON it was given as: an edit changes nothing else.
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def move(
    turn: Transaction,
    ids: Sequence[int],
    to: State,
    at: int | None,
    states: AbstractSet[State],
    seen: Mapping[int, ExpectedState],
) -> list[Reply]:
    """Move jobs that are in *states* to ``waiting``, or to ``delayed`` until *at*."""
    return [
        _move(turn, job_id, to, at, states, seen.get(job_id, UNSEEN)) for job_id in ids
    ]


def _move(
    turn: Transaction,
    job_id: int,
    to: State,
    at: int | None,
    states: AbstractSet[State],
    seen: ExpectedState,
) -> Reply:
    slip = _slip_of(turn, job_id, seen)
    if slip is None:
        return Reply(Result.GONE)
    state = slip.place
    if _is_past(turn, slip, seen):
        return (
            Reply(Result.ALREADY) if seen.ending else Reply(Result.REFUSED, state=state)
        )
    if state is to is State.WAITING:
        return Reply(Result.ALREADY)
    if state not in states or to not in MOVES_BY_HAND[state]:
        return Reply(Result.REFUSED, state=state)
    if state.is_final:
        return _restart(turn, slip, to, at)
    if state is State.BLOCKED:
        removal.unlink(turn, [job_id])
    turn.run(_MOVE, to, at, job_id)
    turn.moved(slip.type, state, to)
    if slip.group_key is not None:
        turn.groups.add((slip.type, slip.group_key))
    kind = Kind.PROMOTION if to is State.WAITING else Kind.UPDATE
    turn.tell(kind, job_id, slip.type, slip.attempts)
    entered(turn, slip.type, to)
    return Reply(Result.DONE)


def _restart(turn: Transaction, slip: StateRow, to: State, at: int | None) -> Reply:
    if slip.unique_key is not None:
        holder = unique_keys.holder(turn, slip.type, slip.unique_key)
        if holder not in (None, slip.id):
            return Reply(Result.HELD, holder=holder)
        unique_keys.take(turn, slip.type, slip.unique_key, slip.id)
    transitions.restart(turn, slip, to, at)
    return Reply(Result.DONE)


def cancel(
    turn: Transaction,
    ids: Sequence[int],
    reason: str,
    seen: Mapping[int, ExpectedState],
) -> list[Reply]:
    """Cancel jobs, or ask those that run to end; each sees what the last one did."""
    replies = []
    for job_id in ids:
        replies.append(_cancel(turn, job_id, reason, seen.get(job_id, UNSEEN)))
        dependencies.tell_dependants(turn)
    return replies


def _cancel(turn: Transaction, job_id: int, reason: str, seen: ExpectedState) -> Reply:
    slip = _slip_of(turn, job_id, seen)
    if slip is None:
        return Reply(Result.GONE)
    match slip.place:
        case State.CANCELLED:
            return Reply(Result.ALREADY)
        case State.COMPLETE | State.FAILED as state:
            return Reply(Result.REFUSED, state=state)
        case State.ACTIVE if slip.cancelling is not None:
            return Reply(Result.ALREADY)
        case State.ACTIVE:
            turn.run(_ASK, reason, job_id)
            return Reply(Result.ASKED)
    transitions.end(turn, [(slip, Cancelled(reason))])
    return Reply(Result.DONE)


def remove(
    turn: Transaction,
    ids: Sequence[int],
    states: AbstractSet[State],
    seen: Mapping[int, ExpectedState],
) -> list[Reply]:
    """Delete jobs that are in *states*; each sees what the last one did."""
    replies = []
    for job_id in ids:
        replies.append(_remove(turn, job_id, states, seen.get(job_id, UNSEEN)))
        dependencies.tell_dependants(turn)
    return replies


def _remove(
    turn: Transaction, job_id: int, states: AbstractSet[State], seen: ExpectedState
) -> Reply:
    slip = _slip_of(turn, job_id, seen)
    if slip is None:
        return Reply(Result.GONE)
    if slip.state not in states or _is_past(turn, slip, seen):
        return Reply(Result.REFUSED, state=slip.place)
    removal.remove(turn, [slip], free_keys=True)
    return Reply(Result.DONE)


def update(turn: Transaction, changes: Sequence[Change]) -> list[Result]:
    """Edit jobs, whatever their state."""
    return [_update(turn, change) for change in changes]


def _update(turn: Transaction, change: Change) -> Result:
    slip = _slip_of(turn, change.job_id, change.seen)
    if slip is None:
        return Result.GONE
    if _is_past(turn, slip, change.seen):
        return Result.REFUSED
    body = turn.one(_BODY, change.job_id)
    fields = _fields(body)
    for name in ("data", "tags", "max_attempts"):
        value = getattr(change, name)
        if value is not msgspec.UNSET:
            fields[name] = msgspec.Raw(msgspec.json.encode(value))
    priority = None if change.priority is msgspec.UNSET else change.priority
    turn.run(_EDIT, as_json(fields), priority, change.job_id)
    turn.tell(Kind.UPDATE, slip.id, slip.type, slip.attempts)
    return Result.DONE


def _slip_of(turn: Transaction, job_id: int, seen: ExpectedState) -> StateRow | None:
    """Return the job that the caller means; None if the id is another one's by now."""
    slip = slips_of(turn.db, [job_id]).get(job_id)
    if slip is None or seen.created_at not in (None, slip.created_at):
        return None
    return slip


def _is_past(turn: Transaction, slip: StateRow, seen: ExpectedState) -> bool:
    """Return whether it ended, was restarted or ended again since the caller looked."""
    if seen.ending is None:
        return False
    is_final = slip.place.is_final
    if not (seen.ending and is_final):
        return is_final or bool(seen.ending)
    story: bytes = turn.one(_STORY, slip.id)
    return not story.rpartition(b"\n")[2].startswith(seen.ending.encode())


def pause(
    turn: Transaction, type: str, reason: str, by: str, until: int | None
) -> None:
    """Hand out no more jobs of *type*."""
    turn.run(_PAUSE, type, turn.now, reason, by, until)


def resume(turn: Transaction, type: str) -> bool:
    """End a pause; tell whether it was in force."""
    was_paused = bool(turn.one(_IS_PAUSED, type, turn.now))
    turn.run("DELETE FROM pauses WHERE type = ?", type)
    turn.ready.add(type)
    return was_paused


def clear(
    turn: Transaction, type: str | None, states: Iterable[State], limit: int
) -> int:
    """Remove up to *limit* jobs in *states*."""
    slips: list[StateRow] = []
    for state in dict.fromkeys(states):
        room = limit - len(slips)
        if room > 0:
            ids = first_ids(turn.db, state, type, room)
            slips += slips_of(turn.db, ids).values()
    removal.remove(turn, slips, free_keys=True)
    return len(slips)
