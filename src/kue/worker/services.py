"""What a worker does beside running jobs: its beat and the store's upkeep."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING

from kue.policy import after_cancel
from kue.store.values import MAX_BATCH, Beat, Tended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from kue.job import Job
    from kue.outage import Outage
    from kue.settings import Keep
    from kue.store.base import Store
    from kue.worker.loop import Loop

logger = logging.getLogger(__name__)

#: Beats in the time of a lease: two may be lost before it is over.
BEATS_PER_LEASE = 3
UPKEEP_SECONDS = 1.0
#: So that many workers do not tend in step.
UPKEEP_JITTER = 0.2


class Heart:
    """Renews the lease on everything the worker runs, and passes on what it hears."""

    def __init__(
        self,
        store: Store,
        loops: Sequence[Loop],
        *,
        worker: str,
        lease: int,
        outage: Outage,
        info: Callable[[], dict[str, Any]],
    ) -> None:
        self._store = store
        self._loops = loops
        self._worker = worker
        self._lease = lease
        self._outage = outage
        self._info = info

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await self._outage.persist("beat", self.beat)
            await asyncio.sleep(self._lease / 1000 / BEATS_PER_LEASE)

    async def beat(self) -> None:
        """Renew the lease once; the first call carries what `workers` shows."""
        jobs = [job for loop in self._loops for job in loop.runs]
        info: dict[str, Any] | None = self._info()
        # The lease is the worker's and one call prolongs it; more calls only ask about
        # more runs.
        for start in range(0, max(len(jobs), 1), MAX_BATCH):
            asked = jobs[start : start + MAX_BATCH]
            self._heed(asked, await self._renew(asked, info))
            info = None

    async def _renew(self, jobs: list[Job], info: dict[str, Any] | None) -> Beat:
        return await self._store.renew(
            self._worker, lease=self._lease, runs=jobs, info=info
        )

    def _heed(self, asked: list[Job], beat: Beat) -> None:
        lost = set(beat.lost)
        for loop in self._loops:
            for job_id, reason in beat.cancel.items():
                loop.cancel(job_id, after_cancel(reason))
            for job in asked:
                if job.id in lost:
                    loop.lose(job)


class Upkeep:
    """Tends the store: promotes, rescues, expires, prunes, fires schedules."""

    def __init__(self, store: Store, *, keep: Keep, lease: int, outage: Outage) -> None:
        self._store = store
        self._keep = keep
        self._lease = lease
        self._outage = outage

    async def run(self) -> None:
        """Tend until cancelled, each second or at once while there is more to do."""
        while True:
            tended = await self._outage.persist("upkeep", self._tend)
            if not tended.more:
                await asyncio.sleep(_scattered(UPKEEP_SECONDS))

    async def _tend(self) -> Tended:
        tended = await self._store.tend(keep=self._keep, lease=self._lease)
        if tended:
            logger.debug("upkeep: %s", tended)
        return tended


def _scattered(seconds: float) -> float:
    return seconds * random.uniform(1 - UPKEEP_JITTER, 1 + UPKEEP_JITTER)
