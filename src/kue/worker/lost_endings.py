"""
Lost endings: runs whose ending the store has lost.

A fail-over may lose the last writes.  If the end of a run is among them, the store
still has the job as running, and this worker, which has finished it, keeps renewing the
lease.  After each loss of the connection the worker compares both and releases such
jobs.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from kue.model.job import State
from kue.model.retry_policy import after_lost_ending
from kue.store.values import MAX_BATCH, Outcome, PageRequest

if TYPE_CHECKING:
    from kue.model.job import Job
    from kue.store.contract import Store
    from kue.worker.shared_context import SharedContext

logger = logging.getLogger(__name__)

#: How often to check whether the connection was lost.
CHECK_SECONDS = 1.0
#: Between two comparisons.  Longer than any call waits for its reply while the store
#: replies to others: a claim or a settle may be in flight at the first comparison.
PATIENCE_SECONDS = 30.0


async def release_lost(context: SharedContext) -> None:
    """Compare each time the connection was lost and is back, until cancelled."""
    losses = context.store.losses
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        if context.store.losses != losses:
            losses = context.store.losses
            await context.store_retry.persist(
                "lost endings", partial(_compare, context)
            )


async def _compare(context: SharedContext) -> None:
    suspects = {job.token for job in await unknown_runs(context)}
    if not suspects:
        return
    await asyncio.sleep(PATIENCE_SECONDS)
    lost = [job for job in await unknown_runs(context) if job.token in suspects]
    for start in range(0, len(lost), MAX_BATCH):
        await _release(context.store, lost[start : start + MAX_BATCH])


async def unknown_runs(context: SharedContext) -> list[Job]:
    """Return the jobs that, according to the store, run here but do not."""
    found: list[Job] = []
    for lane in context.lanes:
        cursor: str | None = None
        while True:
            page = await context.store.page(
                PageRequest(State.ACTIVE, lane.type, limit=MAX_BATCH, cursor=cursor)
            )
            found += (job for job in page.jobs if job.worker == context.name)
            cursor = page.cursor
            if cursor is None:
                break
    known = {run.id for lane in context.lanes for run in lane.runs}
    return [job for job in found if job.id not in known]


async def _release(store: Store, jobs: list[Job]) -> None:
    logger.warning(
        "the store lost how %d runs ended; releasing jobs %s",
        len(jobs),
        ", ".join(str(job.id) for job in jobs),
    )
    await store.settle([Outcome(job, after_lost_ending(job)) for job in jobs])
