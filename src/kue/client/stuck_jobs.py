"""Stuck jobs: blocked ones that wait for a job which failed, until that is retried."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kue.model.job import State
from kue.store.values import MAX_BATCH, PageRequest

if TYPE_CHECKING:
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
    waiting: dict[int, int] = {}
    for job in page.jobs:
        for parent in _needed(job):
            waiting[parent] = waiting.get(parent, 0) + 1
    found = await store.get(sorted(waiting)[:MAX_READ])
    failed = [
        FailedParent(parent.id, parent.type, waiting[parent.id])
        for parent in found
        if parent is not None and parent.state is State.FAILED
    ]
    return sorted(failed, key=lambda one: -one.waiting)


async def failed_parents_of(store: Store, job: Job) -> list[Job]:
    """Return the failed jobs that *job* waits for."""
    if job.state is not State.BLOCKED or not _needed(job):
        return []
    found = await store.get(_needed(job)[:MAX_READ])
    return [one for one in found if one is not None and one.state is State.FAILED]


def _needed(job: Job) -> list[int]:
    """Return the jobs that must succeed before *job* runs."""
    is_needed = job.on_parent_failure == "block"
    return list(dict.fromkeys(job.spec.after)) if is_needed else []
