"""
Steps: jobs that go from one state to another and leave a line in their story.

Every ending of a run, every cancelling, expiring and restarting comes through here, so
that what belongs to a step (the unique key, counts, retention, dependants, the group's
slot) is done in one place.  Jobs that go the same way go together, in one statement.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

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
from kue.store.codec import fingerprint_in, tail_of
from kue.store.sqlite import removal, unique_keys
from kue.store.sqlite.transaction import Transaction, as_json, entered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.store.sqlite.rows import StateRow

#: For a run that was asked to end and was put back instead.
_RESTARTED = '"outcome":"restarted"}'

#: Adds the line that `kue.store.codec.line_of` would: token, time, and the tail given.
_LINE = """
iif(story = '', '', story || char(10))
|| '{"run":"' || iif(:is_run, token, '') || '","at":' || :now || ',' || :taken
"""
_STEP = f"""
UPDATE jobs SET state = :to, at = :at, story = {_LINE} || step.value,
    attempts = attempts + :spent, stalls = stalls + :stalled,
    retain_until = iif(:is_final, :now + retention, NULL),
    held = 0, token = '', worker = '', ttl_at = NULL, progress = 0,
    progress_data = NULL, cancelling = NULL
FROM json_each(:tails) AS step WHERE jobs.id = CAST(step.key AS INTEGER)
"""
_RESTART = f"""
UPDATE jobs SET state = :to, at = :at, story = {_LINE} || :tail, attempts = 0,
    stalls = 0, retain_until = NULL
WHERE id = :id
"""
_STORY = "SELECT CAST(story AS BLOB) FROM jobs WHERE id = ?"
_CUT = "UPDATE jobs SET story = ? WHERE id = ?"


class Transition(NamedTuple):
    """Where a step leads, and what it costs: the same for all jobs of a statement."""

    to: State
    at: int | None
    #: Whether the job ran, so that its line bears the token.
    is_run: bool
    spent: bool = False
    stalled: bool = False


#: A job, how it ends, and when its run began (None if it does not run).
_Walker = tuple["StateRow", Ending, int | None]


def end(
    turn: Transaction, endings: Iterable[tuple[StateRow, Ending]], *, taken: str = ""
) -> None:
    """
    End runs, or jobs that do not run: write the line and move each where it goes next.

    *taken* says what was over when upkeep ended the run of somebody else.  A job that
    someone asked to cancel is not put back: it ended, if not well.
    """
    ways: dict[Transition, list[_Walker]] = {}
    for slip, ending in endings:
        if slip.cancelling is not None and isinstance(
            ending, Retried | Released | Stalled
        ):
            ending = after_cancel(slip.cancelling)
        began = slip.began
        way = _way(turn.now, ending, began is not None)
        ways.setdefault(way, []).append((slip, ending, began))
    for way, walkers in ways.items():
        _measure(turn, walkers)
        if turn.is_heard:
            _tell(turn, walkers)
        _go(turn, way, walkers, taken)


def park(turn: Transaction, slips: Iterable[StateRow], message: str) -> None:
    """Set aside jobs whose record cannot be used: they fail, and an event says why."""
    failed = Failed(Error("DamagedRecord", message))
    walkers: list[_Walker] = [(slip, failed, None) for slip in slips]
    _measure(turn, walkers)
    for slip, _, _ in walkers:
        turn.tell(Kind.ERROR, slip.id, slip.type, slip.attempts, {"message": message})
    _go(turn, Transition(State.FAILED, turn.now, is_run=False), walkers, "")


def restart(turn: Transaction, slip: StateRow, to: State, at: int | None) -> None:
    """Put a finished job back in line; its key has been taken already."""
    if slip.lines >= MAX_HISTORY:
        _cut_story(turn, slip)
    values = {"id": slip.id, "to": to, "at": at, "now": turn.now, "is_run": False}
    turn.db.execute(_RESTART, {**values, "taken": "", "tail": _RESTARTED})
    turn.count(slip.type, slip.state, -1, own=slip.retain_until is not None)
    turn.count(slip.type, to, 1)
    turn.blame.take(slip.type, slip.fingerprint)
    turn.tell(Kind.ENQUEUE, slip.id, slip.type, 0, {"state": to})
    entered(turn, slip.type, to)


def _way(now: int, ending: Ending, is_run: bool) -> Transition:
    match ending:
        case Completed():
            return Transition(State.COMPLETE, now, is_run, is_run)
        case Failed():
            return Transition(State.FAILED, now, is_run, is_run)
        case Cancelled():
            return Transition(State.CANCELLED, now, is_run, is_run)
        case Retried() | Released() | Stalled():
            at = now + ending.delay if ending.delay > 0 else None
            to = State.WAITING if at is None else State.DELAYED
            stalled = isinstance(ending, Stalled)
            given_back = stalled or (isinstance(ending, Released) and not ending.counts)
            return Transition(to, at, is_run, is_run and not given_back, stalled)


def _go(turn: Transaction, way: Transition, walkers: list[_Walker], taken: str) -> None:
    """Move jobs one way, with everything that belongs to it."""
    slips = [slip for slip, _, _ in walkers]
    is_final = way.to in FINAL
    _leave(turn, slips)
    if is_final:
        turn.ended.extend((slip.id, way.to) for slip in slips)
    removed = [slip for slip in slips if slip.remove_on_complete]
    if removed and way.to is State.COMPLETE:
        walkers = [walker for walker in walkers if not walker[0].remove_on_complete]
        _remove(turn, removed)
    if walkers:
        _enter(turn, way, [slip for slip, _, _ in walkers])
        tails = {slip.id: _tail(ending) for slip, ending, _ in walkers}
        if way.to is State.FAILED:
            _blame(turn, walkers, tails)
        values = {
            **way._asdict(),
            "is_final": is_final,
            "now": turn.now,
            "taken": f'"taken":"{taken}",' if taken else "",
            "tails": as_json(tails),
        }
        turn.db.execute(_STEP, values)
    keyed = [slip for slip in slips if slip.unique_key is not None]
    if keyed and is_final:
        unique_keys.release(turn, keyed)


def _tail(ending: Ending) -> str:
    return tail_of(ending).decode()


def _blame(turn: Transaction, walkers: list[_Walker], tails: dict[int, str]) -> None:
    for slip, ending, _ in walkers:
        if isinstance(ending, Failed):
            mark = fingerprint_in(tails[slip.id])
            turn.blame.add(slip.type, mark, slip.id, ending.error, turn.now)


def _leave(turn: Transaction, slips: list[StateRow]) -> None:
    before = Counter((s.type, s.state, s.retain_until is not None) for s in slips)
    for (type, state, own), n in before.items():
        turn.count(type, state, -n, own=own)
        if state == State.ACTIVE:
            turn.freed.add(type)
    blocked = [slip.id for slip in slips if slip.state == State.BLOCKED]
    if blocked:
        removal.unlink(turn, blocked)
    for slip in slips:
        if slip.group_key is not None:
            turn.groups.add((slip.type, slip.group_key))


def _enter(turn: Transaction, way: Transition, slips: list[StateRow]) -> None:
    is_final = way.to in FINAL
    after = Counter((s.type, is_final and s.retention is not None) for s in slips)
    for (type, own), n in after.items():
        turn.count(type, way.to, n, own=own)
        entered(turn, type, way.to)
    for slip in slips:
        if slip.lines >= MAX_HISTORY:
            _cut_story(turn, slip)


def _remove(turn: Transaction, slips: list[StateRow]) -> None:
    """Forget jobs that are not kept once they completed."""
    removal.erase(turn, [slip.id for slip in slips])
    for slip in slips:
        turn.tell(Kind.REMOVE, slip.id, slip.type, slip.attempts + 1)


def _measure(turn: Transaction, walkers: list[_Walker]) -> None:
    """Count what statistics count: good and bad endings, and the time runs took."""
    for slip, ending, began in walkers:
        if isinstance(ending, Completed | Retried | Failed):
            stats = turn.stats(slip.type)
            stats.complete += isinstance(ending, Completed)
            stats.failed += isinstance(ending, Failed)
            stats.run_ms += 0 if began is None else max(0, turn.now - began)


def _tell(turn: Transaction, walkers: list[_Walker]) -> None:
    for slip, ending, began in walkers:
        kind, detail = _event(ending)
        attempt = slip.attempts + (began is not None)
        turn.tell(kind, slip.id, slip.type, attempt, detail)


def _cut_story(turn: Transaction, slip: StateRow) -> None:
    """Make room for one more line: the oldest fall off."""
    story: bytes = turn.one(_STORY, slip.id)
    lines = story.decode(errors="replace").split("\n")[1 - MAX_HISTORY :]
    turn.run(_CUT, "\n".join(lines), slip.id)


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
        case Released(delay, _, reason):
            return Kind.RELEASE, {"reason": reason, "delay": delay}
        case Stalled(error, delay):
            return Kind.RELEASE, {"reason": error.message, "delay": delay}
