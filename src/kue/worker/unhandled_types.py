"""
Unhandled types: their jobs wait, and no live worker handles them; most are typos.

Heartbeats of a worker list the types it handles.  A worker without such a list may
handle any.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
from typing import TYPE_CHECKING, NamedTuple

from kue.model.errors import StoreError
from kue.model.job import State
from kue.worker import flow_jobs

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from kue.store.contract import Store
    from kue.store.values import WorkerStatus

logger = logging.getLogger(__name__)

#: States of jobs that some worker runs or has run.
_HANDLED = (State.ACTIVE, State.COMPLETE, State.FAILED)
#: Types for which similar names are searched, and names to compare with: each
#: comparison takes time of the event loop.
MAX_COMPARED, MAX_NAMES = 10, 200
#: Types that a worker logs one by one.
MAX_LOGGED = 20


class UnhandledType(NamedTuple):
    """A type whose jobs no worker runs."""

    type: str
    waiting: int
    #: Types that live workers handle and that may have been meant.
    near: list[str]

    def __str__(self) -> str:
        jobs, wait = ("job", "waits") if self.waiting == 1 else ("jobs", "wait")
        return (
            f"{self.waiting:,} {jobs} of type {self.type!r} {wait}, and no live worker "
            f"takes it{did_you_mean(self.near)}"
        )


def takes(worker: WorkerStatus, type: str) -> bool:
    """Return whether a live worker handles *type*; without a list of types it may."""
    slots = worker.info.get("slots")
    has_lane = not isinstance(slots, dict) or type in slots
    return worker.alive and (has_lane or type in flow_jobs.TYPES)


def unhandled(
    counts: Mapping[str, Mapping[State, int]], workers: Iterable[WorkerStatus]
) -> list[UnhandledType]:
    """Return the types with waiting jobs that no live worker handles, by name."""
    known = list(workers)
    handled = _handled_by(known)
    types = [
        type
        for type, states in sorted(counts.items())
        if states[State.WAITING] and not any(takes(worker, type) for worker in known)
    ]
    compared = set(types[:MAX_COMPARED]) if len(handled) <= MAX_NAMES else set()
    return [
        UnhandledType(
            type,
            counts[type][State.WAITING],
            near(type, handled) if type in compared else [],
        )
        for type in types
    ]


def ever_handled(
    counts: Mapping[str, Mapping[State, int]], workers: Iterable[WorkerStatus]
) -> set[str]:
    """Return the types that some worker handles, or is known to have handled."""
    done = {
        type
        for type, states in counts.items()
        if any(states.get(state) for state in _HANDLED)
    }
    return done | _handled_by(list(workers))


def near(type: str, known: Iterable[str]) -> list[str]:
    return difflib.get_close_matches(type, sorted(known), n=3)


def did_you_mean(names: list[str]) -> str:
    return f"; did you mean {' or '.join(map(repr, names))}?" if names else ""


async def warn_of_unhandled(
    store: Store, after: float, sleep: Callable[[float], Awaitable[None]]
) -> None:
    """Log them once, after workers that start together had time to register."""
    await sleep(after)
    try:
        counts, workers = await asyncio.gather(store.count(), store.workers())
        _log(unhandled(counts, workers))
    except StoreError as exc:
        logger.debug("could not look for types without a worker: %s", exc)
    except Exception:
        # A hint must not end the worker.
        logger.exception("could not look for types without a worker")


def _log(found: list[UnhandledType]) -> None:
    for one in found[:MAX_LOGGED]:
        logger.warning("%s", one)
    if len(found) > MAX_LOGGED:
        logger.warning(
            "no live worker takes %d more types with waiting jobs; "
            "kue queue list shows all",
            len(found) - MAX_LOGGED,
        )


def _handled_by(workers: list[WorkerStatus]) -> set[str]:
    slots = [worker.info.get("slots") for worker in workers if worker.alive]
    return {type for one in slots if isinstance(one, dict) for type in one}
