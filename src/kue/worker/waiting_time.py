"""How long jobs have been waiting, read from the store in a bounded number of calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.histogram import waiting_since
from kue.model.job import State
from kue.store.values import PageRequest
from kue.store.waiting_order import LEVEL

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

    Stores order waiting jobs by rank, and not by when they began to wait.  Within a
    priority the first are the oldest, except for those that were requeued or delayed:
    so the first few of each priority are read.  Jobs of types with ageing are about in
    the order of their age, among the ranks of one or two priorities.
    """
    oldest, cursor = None, None
    for _ in range(priorities):
        page = await store.page(
            PageRequest(State.WAITING, type, limit=per_priority, cursor=cursor)
        )
        if not page.jobs:
            break
        level = page.jobs[0].rank // LEVEL
        waits = [
            now - waiting_since(job)
            for job in page.jobs
            if job.rank // LEVEL == level and not set(silenced) & set(job.tags)
        ]
        if waits:
            oldest = max(0, *waits, oldest or 0)
        # Where the next priority begins, whichever that is.
        cursor = f"{(level + 1) * LEVEL}:0"
    return oldest
