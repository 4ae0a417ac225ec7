"""Stuck jobs: blocked ones that wait for a job which failed, until that is retried."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from kue.model.errors import StoreCorrupt
from kue.model.job import State
from kue.store.values import MAX_BATCH, PageRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.model.job import Job
    from kue.store.contract import Store

#: Blocked jobs that are looked at, the oldest, and parents of theirs.
MAX_BLOCKED, MAX_READ = 200, MAX_BATCH


class FailedParent(NamedTuple):
    """A job that failed while others wait for it."""

    id: int
    type: str
    #: How many of the blocked jobs that were looked at.
    waiting: int

    def __str__(self) -> str:
        jobs = "1 job waits" if self.waiting == 1 else f"{self.waiting:,} jobs wait"
        return f"{jobs} for job {self.id} of type {self.type!r}, which failed"


async def failed_parents(store: Store) -> list[FailedParent]:
    """Return failed jobs that others wait for, those with most of them first."""
    page = await store.page(PageRequest(State.BLOCKED, limit=MAX_BLOCKED))
    waiting = Counter(chain(*await _parents(store, page.jobs)))
    found = await store.get(sorted(waiting)[:MAX_READ])
    failed = [
        FailedParent(parent.id, parent.type, waiting[parent.id])
        for parent in found
        if parent is not None and parent.state is State.FAILED
    ]
    return sorted(failed, key=lambda one: -one.waiting)


async def failed_parents_of(store: Store, job: Job) -> list[Job]:
    """Return the failed jobs that *job* waits for, until one is retried."""
    parents = list(chain(*await _parents(store, [job])))
    found: list[Job | None] = []
    for start in range(0, len(parents), MAX_BATCH):
        found += await store.get(parents[start : start + MAX_BATCH])
    return [one for one in found if one is not None and one.state is State.FAILED]


async def _parents(store: Store, jobs: Iterable[Job]) -> list[list[int]]:
    """Return the parents of those of *jobs* that a failed one would block."""
    stuck = [
        job.id
        for job in jobs
        if job.state is State.BLOCKED and job.on_parent_failure == "block"
    ]
    # The doctor reports damage; a page about jobs must not fail for it.
    with suppress(StoreCorrupt):
        return await store.parents(stuck) if stuck else []
    return []
