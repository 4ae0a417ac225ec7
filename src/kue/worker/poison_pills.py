"""
Poison pills: jobs that lost several workers run alone in their process.

When a worker is lost, nobody knows which of its jobs was to blame.  A job that lost two
(see `retry_policy.runs_alone`) is held back until nothing else runs here, and nothing
else is started while it runs: if the process dies now, this job is the cause.  Until it
begins, losing the worker does not count against it (`Store.begin`).

All waits are bounded, so that a job which runs for hours, or which another one waits
for, cannot stop the whole process.  One that does not get its turn in time is released.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from kue.model.job import Released
from kue.model.retry_policy import ALONE_MS
from kue.store.values import Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.model.job import Job
    from kue.worker.active_run import ActiveRun
    from kue.worker.shared_context import SharedContext

logger = logging.getLogger(__name__)

ALONE_SECONDS = ALONE_MS / 1000
NO_TURN = Released(reason="its worker had other jobs to run alone before it")
PAUSED = Released(reason="its type was paused before it could run alone")


class PoisonPills:
    """Decides when such runs begin; while there are any, no lane claims jobs."""

    def __init__(self, context: SharedContext, on_start: Callable[[], None]) -> None:
        self._store = context.store
        self._store_retry = context.store_retry
        self._lanes = context.lanes
        #: Called when claims must stop, including those that wait in the store.
        self._on_start = on_start
        #: Runs that must run alone, in order.  Only the first may have begun.
        self._queue: list[ActiveRun] = []
        #: Those with a `Store.begin` in flight, which returns a new token.
        self._beginning: set[ActiveRun] = set()
        self._is_closed = False
        self._changed = asyncio.Event()

    @property
    def is_on(self) -> bool:
        """Whether no job may be claimed."""
        return bool(self._queue)

    def look_again(self) -> None:
        """Note that slots were freed or runs interrupted."""
        self._changed.set()

    def is_beginning(self, run: ActiveRun) -> bool:
        """Return whether `Store.begin` is in flight, which decides if *run* is ours."""
        return run in self._beginning

    def close(self) -> None:
        """Begin nothing more: the worker has stopped."""
        self._is_closed = True

    async def enter(self, run: ActiveRun) -> None:
        """Return when *run* may begin, or was interrupted before that."""
        self._queue.append(run)
        if len(self._queue) == 1:
            self._on_start()
        # Runs before it may have been waiting for exactly this.
        self._changed.set()
        if not await self._in_time(run, lambda: self._queue[0] is run):
            run.interrupt(NO_TURN)
        await self._in_time(run, lambda: self._is_alone)
        if run.is_interrupted:
            self.leave(run)
        else:
            await self._begin(run, alone=self._is_alone)

    def leave(self, run: ActiveRun) -> None:
        """Let the others go on: *run* ended, or used up its time alone."""
        if run not in self._queue:
            return
        self._queue.remove(run)
        self._changed.set()
        if not self._queue:
            for lane in self._lanes:
                lane.wake()

    @property
    def _is_alone(self) -> bool:
        """Whether nothing runs and no claim is in flight, except runs held back."""
        return sum(lane.claimant.held for lane in self._lanes) == len(self._queue)

    async def _in_time(self, run: ActiveRun, is_so: Callable[[], bool]) -> bool:
        """Wait until *is_so* or *run* is interrupted; return False on timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_timeout(run.job)):
                while not (run.is_interrupted or is_so()):
                    self._changed.clear()
                    await self._changed.wait()
        return run.is_interrupted or is_so()

    async def _begin(self, run: ActiveRun, *, alone: bool) -> None:
        logger.info(
            "job %d lost %d workers and runs %s",
            run.id,
            run.job.stalls,
            "alone" if alone else "alongside jobs that did not end in time",
            extra={"job_id": run.id},
        )
        self._beginning.add(run)
        began = await self._store_retry.persist(
            f"begin {run.id}", lambda: self._ask(run, alone=alone)
        )
        self._beginning.discard(run)
        if isinstance(began, Result):
            run.interrupt(PAUSED if began is Result.REFUSED else None)
            self.leave(run)
            return
        run.job = began
        if alone:
            asyncio.get_running_loop().call_later(ALONE_SECONDS, self.leave, run)
        else:
            self.leave(run)

    async def _ask(self, run: ActiveRun, *, alone: bool) -> Job | Result:
        if self._is_closed:
            return Result.LOST
        return await self._store.begin(run.job, alone=alone)


def _timeout(job: Job) -> float:
    """Return how many seconds each of the two waits of a job may last."""
    # Its ttl counts from the claim: both waits must end before it does.
    return min(ALONE_SECONDS, job.ttl / 3000) if job.ttl else ALONE_SECONDS
