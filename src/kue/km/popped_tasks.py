"""
Popped tasks of this process: their leases are renewed until they are finished.

A process that pops tasks is a worker to the store.  Its heartbeat and its maintenance
are those of `kue.worker`; what it runs is in the hands of the caller.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from kue.aio.tasks import cancel_all
from kue.model.job import BY_HAND, SEALED, Failed, Released
from kue.model.sealed_payload import refusal_of
from kue.model.version import version
from kue.store.codec import error_of
from kue.store.values import Claim, ClaimRequest, Outcome, Result
from kue.worker.heartbeat import Heartbeat
from kue.worker.maintenance import Maintenance
from kue.worker.shared_context import SharedContext

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.model.job import Ending, Job
    from kue.store.contract import Store
    from kue.worker.lane import Lane

logger = logging.getLogger(__name__)

#: One wait for a task; then it is looked for again.
WAIT_SECONDS = 5.0
RELEASED = Released(reason="the process that popped it closed its queue")


class Popped(NamedTuple):
    """A popped task, as the heartbeat sees a run."""

    job: Job


class ClaimLane:
    """One pop at a time: claims are numbered, so that a repeated one pops nothing."""

    def __init__(self) -> None:
        # Each lost consumer counts for its tasks, whatever ran beside them.
        self.name = f"{BY_HAND}{secrets.token_hex(4)}"
        self.seq = 0

    def next(self) -> Claim:
        self.seq += 1
        return Claim(self.name, self.seq)


class PoppedTasks:
    """Pops and finishes tasks of *q*, on its event loop."""

    def __init__(self, q: Kue, queues: list[str]) -> None:
        self.q = q
        self._connection = q._connection
        self._store = self._connection.store
        self._queues = queues
        self.name = f"km-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
        self._popped: dict[int, Popped] = {}
        self._free: list[ClaimLane] = []
        self._is_paused = False
        self._done = 0
        #: Pops that wait for a task.
        self._pops: set[asyncio.Task[Any]] = set()
        self._starting = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self._started_at = time.time_ns() // 1_000_000

    async def ready(self) -> None:
        """Renew leases, and maintain the store, from the first call on."""
        async with self._starting:
            if not self._tasks:
                await self._start()

    async def _start(self) -> None:
        connection = self._connection
        context = SharedContext(
            self.name,
            self._store,
            connection.store_retry,
            connection.settings,
            # The heartbeat knows of a lane what is here.
            cast("list[Lane]", [self]),
        )
        maintenance = Maintenance(context)
        heartbeat = Heartbeat(
            context,
            info=self._status,
            handle_order=self._ignore,
            on_overdue=maintenance.wake,
        )
        await heartbeat.send()
        start = connection.background.start
        self._tasks = [
            start(heartbeat.run(), "kue km heartbeat"),
            start(maintenance.run(), "kue km maintenance"),
        ]

    async def close(self) -> None:
        """End waiting pops, requeue what was not finished, and deregister."""
        # What one of them claims from now on would be nobody's.
        await cancel_all(tuple(self._pops))
        outcomes = [Outcome(one.job, RELEASED) for one in self.runs]
        try:
            if outcomes:
                await self._store.settle(outcomes)
        finally:
            self._popped.clear()
            await cancel_all(self._tasks)
        await self._store.leave(self.name)

    async def pop(self, queue: str, timeout: float | None) -> Job | None:
        """Return the next task, or None if there was none for *timeout* seconds."""
        lane = self._free.pop() if self._free else ClaimLane()
        until = None if timeout is None else time.monotonic() + timeout
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._pops.add(task)
        try:
            while True:
                job = await self._claim(queue, lane)
                if job is not None:
                    return job
                left = WAIT_SECONDS if until is None else until - time.monotonic()
                if left <= 0:
                    return None
                await self._wait(queue, min(left, WAIT_SECONDS))
        finally:
            self._pops.discard(task)
            self._free.append(lane)

    async def finish(self, job: Job, ending: Ending) -> bool:
        """End a task; return False if it was taken from us before."""
        self._popped.pop(job.id, None)
        [result] = await self._connection.store_retry.persist(
            "finish", lambda: self._store.settle([Outcome(job, ending)])
        )
        self._done += 1
        return result in (Result.DONE, Result.ALREADY)

    async def _claim(self, queue: str, lane: ClaimLane) -> Job | None:
        if self._is_paused:
            return None
        request = ClaimRequest(
            [queue],
            1,
            worker=self.name,
            claim=lane.next(),
            lease=self._connection.settings.lease,
        )
        # Repeated with the same number until it is answered: no task is lost.
        claimed = await self._connection.store_retry.persist(
            f"pop {lane.name}", lambda: self._store.claim(request)
        )
        if not claimed.jobs:
            return None
        [job] = claimed.jobs
        if job.spec.sealed == SEALED:
            await self.finish(job, Failed(error_of(refusal_of(job.spec))))
            return None
        self._popped[job.id] = Popped(job)
        return job

    async def _wait(self, queue: str, seconds: float) -> None:
        if self._is_paused:
            await asyncio.sleep(min(seconds, 0.2))
            return
        await self._connection.store_retry.persist(
            f"wait {queue}", lambda: self._store.wait([queue], seconds)
        )

    # -- what the heartbeat uses -----------------------------------------------

    @property
    def runs(self) -> list[Popped]:
        return list(self._popped.values())

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False

    def lose(self, job: Job) -> None:
        """Note that a task was taken from us: it can no longer be finished here."""
        known = self._popped.get(job.id)
        if known is not None and known.job.token == job.token:
            logger.warning("task %d was reclaimed while it was handled here", job.id)
            del self._popped[job.id]

    def cancel(self, job_id: int, ending: Ending) -> None:
        """Leave it to the caller: nobody can interrupt a thread that handles a task."""

    def cancel_all(self) -> None:
        """As `cancel`."""

    async def _ignore(self, store: Store, order: str) -> None:
        logger.info("order %r ignored: tasks are popped by hand", order)

    def _status(self) -> dict[str, Any]:
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": version(),
            "started_at": self._started_at,
            "slots": dict.fromkeys(self._queues, 1),
            "running": len(self._popped),
            "done": self._done,
        }
