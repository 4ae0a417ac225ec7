"""
Event checks: events must be consistent with each other and with the final states.

Each transition is published once and in order, so events are a path through the states.
After a LAGGED event, which reports that some were missed, the path may start again.
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

#: Event → the states the job may have been in before it, and the state after it.
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
    """Events that cannot follow one another, or that contradict the final state."""
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
                yield Breach("event", _message(event, was))
            now[event.job_id] = after
    yield from _last_ones(history, now)


def _last_ones(history: History, now: dict[int, str]) -> Iterator[Breach]:
    for job_id, last in now.items():
        job = history.job.get(job_id)
        state = job.state if job else GONE
        # Events do not distinguish the unfinished states.
        is_open = last in (READY, ACTIVE) and state not in (*_ENDED, GONE)
        if last != state and not is_open:
            yield Breach("event", f"job {job_id} is {state}, by its events {last}")


def _message(event: Event, was: str) -> str:
    return f"job {event.job_id}: {event.kind} at {event.at} while it was {was}"


CHECKS = (check,)
