"""
Runs whose ending the store has lost.

A fail-over may lose what was written last.  A job whose end is lost in this way still
runs, as far as the store knows: here, where nobody runs it, and for as long as this
worker lives.  After a loss of the connection a worker looks for such jobs and ends
their runs.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kue.job import State
from kue.policy import after_lost_ending
from kue.store.values import MAX_BATCH, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.job import Job
    from kue.outage import Outage
    from kue.store.base import Store
    from kue.worker.loop import Loop

logger = logging.getLogger(__name__)

#: How often to see whether the connection was lost: nothing announces it.
LOOK_SECONDS = 1.0
#: Longer than a call goes on without an answer while the store answers others: a claim
#: may be on its way here, or an ending on its way there.
PATIENCE_SECONDS = 30.0


class LostEndings:
    """Looks for runs that the store takes for ours, and that nobody here knows."""

    def __init__(
        self,
        store: Store,
        loops: Sequence[Loop],
        *,
        worker: str,
        outage: Outage,
    ) -> None:
        self._store = store
        self._loops = loops
        self._worker = worker
        self._outage = outage

    async def run(self) -> None:
        """Look each time the store was lost and is back, until cancelled."""
        losses = self._store.losses
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._store.losses != losses:
                losses = self._store.losses
                await self._outage.persist("lost endings", self._look)

    async def _look(self) -> None:
        suspects = {job.token for job in await self._unknown()}
        if not suspects:
            return
        await asyncio.sleep(PATIENCE_SECONDS)
        lost = [job for job in await self._unknown() if job.token in suspects]
        for start in range(0, len(lost), MAX_BATCH):
            await self._end(lost[start : start + MAX_BATCH])

    async def _unknown(self) -> list[Job]:
        """Return the jobs that this worker runs, but for those that it does run."""
        found: list[Job] = []
        for loop in self._loops:
            cursor: str | None = None
            while True:
                page = await self._store.page(
                    State.ACTIVE, loop.type, limit=MAX_BATCH, cursor=cursor
                )
                found += (job for job in page.jobs if self._is_ours(job))
                cursor = page.cursor
                if cursor is None:
                    break
        known = {job.id for loop in self._loops for job in loop.runs}
        return [job for job in found if job.id not in known]

    def _is_ours(self, job: Job) -> bool:
        return job.run is not None and job.run.worker == self._worker

    async def _end(self, jobs: list[Job]) -> None:
        logger.warning(
            "the store has lost how %d runs ended, and they are released: jobs %s",
            len(jobs),
            ", ".join(str(job.id) for job in jobs),
        )
        outcomes = [Outcome(job, after_lost_ending(job)) for job in jobs]
        await self._store.settle(outcomes)
