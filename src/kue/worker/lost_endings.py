"""
Lost settles: runs whose ending the store has lost.

A fail-over may lose the last writes.  If the end of a run is among them, the store
still has the job as running, and this worker, which has finished it, keeps renewing the
lease.  After each loss of the connection the worker compares both and releases such
jobs.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from kue.model.job import State
from kue.model.retry_policy import after_lost_ending
from kue.store.values import MAX_BATCH, Outcome, PageRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.aio.retry import StoreRetry
    from kue.model.job import Job
    from kue.store.contract import Store
    from kue.worker.lane import Lane

logger = logging.getLogger(__name__)

#: How often to check whether the connection was lost.
CHECK_SECONDS = 1.0
#: Between two comparisons.  Longer than any call waits for its reply while the store
#: replies to others: a claim or a settle may be in flight at the first comparison.
PATIENCE_SECONDS = 30.0


@dataclass(eq=False)
class LostSettles:
    """Releases jobs that, according to the store, run here but do not."""

    store: Store
    lanes: Sequence[Lane]
    _: KW_ONLY
    worker: str
    store_retry: StoreRetry

    async def run(self) -> None:
        """Compare each time the connection was lost and is back, until cancelled."""
        losses = self.store.losses
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if self.store.losses != losses:
                losses = self.store.losses
                await self.store_retry.persist("lost endings", self._compare)

    async def _compare(self) -> None:
        suspects = {job.token for job in await self._unknown()}
        if not suspects:
            return
        await asyncio.sleep(PATIENCE_SECONDS)
        lost = [job for job in await self._unknown() if job.token in suspects]
        for start in range(0, len(lost), MAX_BATCH):
            await self._release(lost[start : start + MAX_BATCH])

    async def _unknown(self) -> list[Job]:
        """Return the jobs that, according to the store, run here but do not."""
        found: list[Job] = []
        for lane in self.lanes:
            cursor: str | None = None
            while True:
                page = await self.store.page(
                    PageRequest(State.ACTIVE, lane.type, limit=MAX_BATCH, cursor=cursor)
                )
                found += (job for job in page.jobs if job.worker == self.worker)
                cursor = page.cursor
                if cursor is None:
                    break
        known = {run.id for lane in self.lanes for run in lane.runs}
        return [job for job in found if job.id not in known]

    async def _release(self, jobs: list[Job]) -> None:
        logger.warning(
            "the store lost how %d runs ended; releasing jobs %s",
            len(jobs),
            ", ".join(str(job.id) for job in jobs),
        )
        outcomes = [Outcome(job, after_lost_ending(job)) for job in jobs]
        await self.store.settle(outcomes)
