"""How long jobs have been waiting, read from the store in a bounded number of calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.histogram import waiting_since
from kue.model.job import State
from kue.store.values import PageRequest

if TYPE_CHECKING:
    from collections.abc import Collection

    from kue.store.contract import Store

#: Jobs read to find the oldest: of how many priorities, and how many of each.
MAX_PRIORITIES = 20
MAX_PER_PRIORITY = 20


async def oldest_waits(
    store: Store,
    now: int,
    type: str | None = None,
    *,
    silenced: Collection[str] = (),
    priorities: int = MAX_PRIORITIES,
    per_priority: int = MAX_PER_PRIORITY,
) -> int | None:
    """
    Return the longest that a job without a *silenced* tag has been waiting, in ms.

    Stores order waiting jobs by priority and id, and not by when they began to wait.
    Within a priority the first are the oldest, except for those that were requeued or
    delayed: so the first few of each priority are read.
    """
    oldest, cursor = None, None
    for _ in range(priorities):
        page = await store.page(
            PageRequest(State.WAITING, type, limit=per_priority, cursor=cursor)
        )
        if not page.jobs:
            break
        priority = page.jobs[0].priority
        waits = [
            now - waiting_since(job)
            for job in page.jobs
            if job.priority == priority and not set(silenced) & set(job.tags)
        ]
        if waits:
            oldest = max(0, *waits, oldest or 0)
        # Where the next priority begins, whichever that is.
        cursor = f"{priority + 1}:0"
    return oldest
