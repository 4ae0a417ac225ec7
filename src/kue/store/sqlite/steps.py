"""
Steps: jobs that go from one state to another and leave a line in their story.

Every ending of a run, every cancelling, expiring and restarting comes through here, so
that what belongs to a step (the unique key, counts, retention, dependants, the group's
slot) is done in one place and for whole batches at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.events import Kind
from kue.job import (
    MAX_HISTORY,
    Cancelled,
    Completed,
    Ending,
    Error,
    Failed,
    Released,
    Retried,
    Run,
    Stalled,
    State,
)
from kue.store.codec import encode_json, line_of, tail_of
from kue.store.sqlite import keys, removal
from kue.store.sqlite.turn import Turn, as_json, entered, is_final
from kue.store.values import restarted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.store.sqlite.rows import Slip

#: For a run that was asked to end and was put back instead.
_ASKED = "cancelled while it ran"

_STEP = """
UPDATE jobs SET state = new.value->>1, at = new.value->>2, story = new.value->>3,
    attempts = new.value->>4, stalls = new.value->>5, retain_until = new.value->>6,
    held = 0, token = '', worker = '', ttl_at = NULL, progress = 0,
    progress_data = NULL, cancelling = NULL
FROM json_each(?) AS new WHERE jobs.id = new.value->>0
"""

#: The values of _STEP for one job.
_Step = tuple[int, State, int | None, str, int, int, int | None]


def end(turn: Turn, endings: Iterable[tuple[Slip, Ending]], *, taken: str = "") -> None:
    """
    End runs, or jobs that do not run: write the line and move each where it goes next.

    *taken* says what was over when upkeep ended the run of somebody else.  A job that
    someone asked to cancel is not put back: it ended, if not well.
    """
    batch = _Batch(turn)
    for slip, ending in endings:
        if slip.cancelling is not None and isinstance(
            ending, Retried | Released | Stalled
        ):
            ending = Cancelled(slip.cancelling or _ASKED)
        run = slip.run
        batch.add(slip, _step(turn, slip, run, ending, taken))
        _measure(turn, slip, run, ending)
        _tell(turn, slip, run, ending)
    batch.write()


def park(turn: Turn, slips: Iterable[Slip], message: str) -> None:
    """Set aside jobs whose record cannot be used: they fail, and an event says why."""
    failed = Failed(Error("DamagedRecord", message))
    batch = _Batch(turn)
    for slip in slips:
        batch.add(slip, _step(turn, slip, None, failed, ""))
        turn.stats(slip.type).failed += 1
        turn.tell(Kind.ERROR, slip.id, slip.type, slip.attempts, {"message": message})
    batch.write()


def restart(turn: Turn, slip: Slip, to: State, at: int | None) -> None:
    """Put a finished job back in line; its key has been taken already."""
    line = encode_json(restarted(turn.now)).decode()
    batch = _Batch(turn)
    batch.add(slip, (slip.id, to, at, _continued(slip.story, line), 0, 0, None))
    batch.write()
    turn.tell(Kind.ENQUEUE, slip.id, slip.type, 0, {"state": to})


class _Batch:
    """Jobs on their way, and what has to be done for them besides."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._steps: list[_Step] = []
        self._keyed: list[Slip] = []
        self._blocked: list[int] = []
        self._removed: list[tuple[Slip, _Step]] = []

    def add(self, slip: Slip, step: _Step) -> None:
        turn, to = self._turn, step[1]
        turn.count(slip.type, slip.state, -1, own=slip.retain_until is not None)
        if slip.state == State.ACTIVE:
            turn.freed.add(slip.type)
        elif slip.state == State.BLOCKED:
            self._blocked.append(slip.id)
        if slip.group_key is not None:
            turn.groups.add((slip.type, slip.group_key))
        if is_final(to):
            turn.ended.append((slip.id, to))
            if slip.unique_key is not None:
                self._keyed.append(slip)
        if to is State.COMPLETE and slip.remove_on_complete:
            self._removed.append((slip, step))
            return
        self._steps.append(step)
        turn.count(slip.type, to, 1, own=step[6] is not None)
        entered(turn, slip.type, to)

    def write(self) -> None:
        turn = self._turn
        if self._steps:
            turn.run(_STEP, as_json(self._steps))
        if self._removed:
            removal.erase(turn, [slip.id for slip, _ in self._removed])
        for slip, step in self._removed:
            turn.tell(Kind.REMOVE, slip.id, slip.type, step[4])
        if self._blocked:
            removal.unlink(turn, self._blocked)
        if self._keyed:
            keys.release(turn, self._keyed)


def _step(turn: Turn, slip: Slip, run: Run | None, ending: Ending, taken: str) -> _Step:
    line = _line(turn, slip if run is not None else None, ending, taken)
    attempts, stalls = slip.attempts if run is None else run.attempt, slip.stalls
    retain_until = None if slip.retention is None else turn.now + slip.retention
    at: int | None = turn.now
    match ending:
        case Completed():
            to = State.COMPLETE
        case Failed():
            to = State.FAILED
        case Cancelled():
            to = State.CANCELLED
        case Retried() | Released() | Stalled():
            retain_until = None
            at = turn.now + ending.delay if ending.delay > 0 else None
            to = State.WAITING if at is None else State.DELAYED
            if run is not None and _gives_back(ending):
                attempts = run.attempt - 1
            stalls += isinstance(ending, Stalled)
    story = _continued(slip.story, line)
    return slip.id, to, at, story, attempts, stalls, retain_until


def _line(turn: Turn, slip: Slip | None, ending: Ending, taken: str) -> str:
    tail = tail_of(ending)
    if taken:
        tail = b'"taken":"%s",%s' % (taken.encode(), tail)
    return line_of(slip.token if slip else "", turn.now, tail).decode()


def _gives_back(ending: Ending) -> bool:
    return isinstance(ending, Stalled) or (
        isinstance(ending, Released) and not ending.counts
    )


def _continued(story: str, line: str) -> str:
    """Return the story with one more line, the oldest cut off when there are many."""
    if not story:
        return line
    lines = story.count("\n") + 1
    if lines >= MAX_HISTORY:
        story = story.split("\n", lines - MAX_HISTORY + 1)[-1]
    return f"{story}\n{line}"


def _measure(turn: Turn, slip: Slip, run: Run | None, ending: Ending) -> None:
    """Count what statistics count: good and bad endings, and the time runs took."""
    if not isinstance(ending, Completed | Retried | Failed):
        return
    stats = turn.stats(slip.type)
    stats.complete += isinstance(ending, Completed)
    stats.failed += isinstance(ending, Failed)
    if run is not None:
        stats.run_ms += max(0, turn.now - run.started_at)


def _tell(turn: Turn, slip: Slip, run: Run | None, ending: Ending) -> None:
    if not turn.is_heard:
        return
    attempt = slip.attempts if run is None else run.attempt
    kind, detail = _event(ending)
    turn.tell(kind, slip.id, slip.type, attempt, detail)


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
