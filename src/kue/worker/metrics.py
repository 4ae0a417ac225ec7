"""Metrics of a worker: how long jobs waited and ran, reported to the store."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING

from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import StoreFull, StoreUnavailable
from kue.model.histogram import Timing, bucket, ready_at
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from kue.model.job import Job
    from kue.worker.active_run import ActiveRun
    from kue.worker.shared_context import SharedContext

logger = logging.getLogger(__name__)

#: How often a worker reports how long jobs waited and ran.
TIMING_SECONDS = 5.0
#: How long a worker that stops tries to report the rest.
CLOSE_SECONDS = 1.0


class RunTimings:
    """How long jobs of a type waited and ran since the last report."""

    def __init__(self, job_type: str) -> None:
        self._type = job_type
        self._waits: dict[int, int] = {}
        self._runs: dict[int, int] = {}

    def count_wait(self, job: Job) -> None:
        """Count how long a job waited that was just claimed."""
        since = ready_at(job)
        if since is not None:
            # The last change of an active job is its start.
            waited = bucket(job.updated_at - since)
            self._waits[waited] = self._waits.get(waited, 0) + 1

    def count_run(self, run: ActiveRun) -> None:
        """Count how long a run took that ends now."""
        took = bucket((time.monotonic() - run.began) * 1000)
        self._runs[took] = self._runs.get(took, 0) + 1

    def take(self) -> Timing | None:
        """Return what was counted since the last call; None if nothing was."""
        if not self._waits and not self._runs:
            return None
        timing = Timing(self._type, self._waits, self._runs)
        self._waits, self._runs = {}, {}
        return timing


class TimingReporter:
    """Reports how long jobs waited and ran, every few seconds if any did."""

    def __init__(self, context: SharedContext) -> None:
        self._context = context
        self._log = ThrottledLog(logger)

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self._context.sleep(TIMING_SECONDS)
            await self._report()

    async def close(self) -> None:
        """Report the rest; an unavailable store must not delay the stop for long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._report()

    async def _report(self) -> None:
        taken = [lane.timings.take() for lane in self._context.lanes]
        timings = [timing for timing in taken if timing is not None]
        # What cannot be reported is dropped: numbers from an outage would be counted in
        # the wrong minute, and nothing depends on them.
        try:
            for start in range(0, len(timings), MAX_BATCH):
                await self._context.store.measure(timings[start : start + MAX_BATCH])
        except (StoreUnavailable, StoreFull) as exc:
            logger.debug("timings dropped: %s", exc)
        except Exception as exc:
            self._log.error("timings dropped", exc=exc)
