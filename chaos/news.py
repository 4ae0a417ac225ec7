"""
What a listener heard, against the states a job can have and the one it has.

Each transition is told once and in order, so events are a path through the states.
Where the listener was told that it missed some, the path may begin anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.breach import Breach
from kue import Kind, State

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.history import History
    from kue import Event

NEW, READY, ACTIVE, GONE = "new", "ready", "active", "gone"
_ENDED = frozenset({State.COMPLETE, State.FAILED, State.CANCELLED})

#: Event → what the job may have been before it, and what it is then.
PATHS: dict[Kind, tuple[frozenset[str], str]] = {
    Kind.ENQUEUE: (frozenset({NEW}) | _ENDED, READY),
    Kind.PROMOTION: (frozenset({READY}), READY),
    Kind.START: (frozenset({READY}), ACTIVE),
    Kind.PROGRESS: (frozenset({ACTIVE}), ACTIVE),
    Kind.FAILED_ATTEMPT: (frozenset({ACTIVE}), READY),
    Kind.RELEASE: (frozenset({ACTIVE}), READY),
    Kind.COMPLETE: (frozenset({ACTIVE}), State.COMPLETE),
    Kind.FAILED: (frozenset({READY, ACTIVE}), State.FAILED),
    Kind.CANCELLED: (frozenset({READY, ACTIVE}), State.CANCELLED),
    Kind.REMOVE: (frozenset({READY, ACTIVE}) | _ENDED, GONE),
}


def check(history: History) -> Iterator[Breach]:
    """Events that cannot follow one another, and last ones that are not so."""
    now: dict[int, str] = {}
    is_whole = True
    for event in history.events:
        if event.kind is Kind.LAGGED:
            now.clear()
            is_whole = False
        elif event.kind in PATHS:
            before, after = PATHS[event.kind]
            was = now.get(event.job_id, NEW if is_whole else None)
            if was is not None and was not in before:
                yield Breach("event", _told(event, was))
            now[event.job_id] = after
    yield from _last_ones(history, now)


def _last_ones(history: History, now: dict[int, str]) -> Iterator[Breach]:
    for job_id, last in now.items():
        job = history.job.get(job_id)
        state = job.state if job else GONE
        # Which of the unfinished states a job is in is not told.
        is_open = last in (READY, ACTIVE) and state not in (*_ENDED, GONE)
        if last != state and not is_open:
            yield Breach("event", f"job {job_id} is {state} and was told to be {last}")


def _told(event: Event, was: str) -> str:
    return f"job {event.job_id}: {event.kind} at {event.at} while it was {was}"


CHECKS = (check,)
