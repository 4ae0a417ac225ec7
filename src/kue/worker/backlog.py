"""
Backlog: jobs that could start now, by type, and how long the first of them waits.

Jobs of paused types and those over a limit wait as well, but no further worker would
start them.
"""

from __future__ import annotations

import asyncio
from heapq import nlargest
from typing import TYPE_CHECKING, NamedTuple

from kue.model.histogram import waiting_since
from kue.model.job import State
from kue.store.values import PageRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from kue.store.contract import Store
    from kue.store.values import Limits, Pause

#: Types whose first job is read.
MAX_READ = 20


class Backlog(NamedTuple):
    """Jobs of one type that wait, and those that run."""

    #: Not more than the type's pause and limit of concurrency allow to start.
    waiting: int
    #: In all workers together.
    running: int
    #: Whether a limit of the type may hold back some of those that wait.
    is_limited: bool = False

    def runnable(self, *, running: int, slots: int) -> int:
        """
        Return how many of the jobs wait for a slot, when *running* of *slots* are busy.

        Jobs that wait for a limit while slots are free do not wait for those.
        """
        return 0 if self.is_limited and running < slots else self.waiting


async def backlogs(store: Store, types: Collection[str]) -> dict[str, Backlog]:
    """Return the backlog of each of *types*: one call, and four while jobs wait."""
    counts = await store.count()
    found = {type: _counted(counts.get(type, {})) for type in types}
    if not any(backlog.waiting for backlog in found.values()):
        return found
    pauses, limits, named = await asyncio.gather(
        store.paused(), store.limits(), store.named_limits()
    )
    paused = _paused(pauses, found)
    return {
        type: Backlog(0, backlog.running)
        if type in paused
        # Jobs of any type may count against a named limit.
        else _limited(backlog, limits.get(type))._replace(
            is_limited=type in limits or bool(named)
        )
        for type, backlog in found.items()
    }


async def first_waits(
    store: Store, found: Mapping[str, Backlog], *, now: int, most: int = MAX_READ
) -> dict[str, float]:
    """
    Return how long the next job of a type has been waiting, in seconds.

    Of the *most* types with the longest backlogs; others are missing.
    """
    waiting = [type for type, backlog in found.items() if backlog.waiting]
    longest = nlargest(most, waiting, key=lambda type: found[type].waiting)
    requests = [PageRequest(State.WAITING, type, limit=1) for type in longest]
    pages = await asyncio.gather(*map(store.page, requests))
    return {
        type: max(0, now - waiting_since(page.jobs[0])) / 1000
        for type, page in zip(longest, pages, strict=True)
        if page.jobs
    }


def _counted(states: Mapping[State, int]) -> Backlog:
    return Backlog(states.get(State.WAITING, 0), states.get(State.ACTIVE, 0))


def _paused(pauses: Iterable[Pause], types: Iterable[str]) -> set[str]:
    named = {pause.type for pause in pauses if pause.worker is None}
    return {type for type in types if type in named or None in named}


def _limited(backlog: Backlog, limits: Limits | None) -> Backlog:
    if limits is None:
        return backlog
    waiting = backlog.waiting
    if limits.concurrency is not None:
        waiting = min(waiting, max(0, limits.concurrency - backlog.running))
    return backlog._replace(waiting=waiting)
