"""
Heartbeat of a worker: it renews the lease on the jobs that run.

A handler that blocks the event loop delays the worker's own heartbeats.  In a worker
without a supervisor a thread, with its own event loop and connection, renews the lease
instead.  Only code that holds the interpreter lock stops it too; against that there is
``kue worker``, where another process renews the lease.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from kue.aio.loop_thread import LoopThread
from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import ConfigError, StoreFull, StoreUnavailable
from kue.model.retry_policy import after_cancel
from kue.store.values import MAX_BATCH, HeartbeatReply, RenewRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kue.model.job import Job
    from kue.store.contract import Store
    from kue.worker.shared_context import SharedContext

#: The worker's own heartbeat is late after this many intervals.  Ours follows within
#: another interval, long before the lease runs out.
LATE = 1.25
logger = logging.getLogger(__name__)
#: Handles an order to the worker; takes a store that the calling thread may use.
HandleOrder = Callable[["Store", str], Awaitable[None]]
#: Two heartbeats may be lost before the lease runs out.
HEARTBEATS_PER_LEASE = 3
#: An idle worker attaches its status to every Nth heartbeat.
HEARTBEATS_PER_STATUS = 4
#: With a strict lease, runs are cancelled before it ends, by this share of it.
LEASE_MARGIN = 0.1


class Heartbeat:
    """Renews the worker's lease, and acts on the replies: cancel, lost, paused."""

    def __init__(
        self,
        context: SharedContext,
        *,
        info: Callable[[], dict[str, Any]],
        handle_order: HandleOrder,
        on_overdue: Callable[[], None],
    ) -> None:
        self._context = context
        self._interval = context.lease_seconds / HEARTBEATS_PER_LEASE
        self._strict = context.settings.strict_lease
        self._info = info
        self._last_activity: list[object] = []
        self._count = 0
        self._handle_order = handle_order
        self._on_overdue = on_overdue
        #: Whether this worker may claim jobs, by the last reply.
        self.may_claim = False
        #: Whether there was a reply yet.
        self.is_answered = False
        #: When the last confirmed heartbeat was sent, by our own clock.
        self._renewed_at = time.monotonic()

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            await self._context.store_retry.persist("heartbeat", self._try)
            await self._context.sleep(self._interval)

    @asynccontextmanager
    async def thread(self) -> AsyncIterator[None]:
        """
        Renew the lease from a thread as well, for as long as the context lasts.

        Only while the worker's event loop does not.  Orders are handled in that thread
        then, as the worker cannot receive them.
        """
        try:
            twin = self._context.store.twin()
        except ConfigError:
            # The store serves only one event loop.  The worker's own heartbeat must do.
            yield
            return
        thread = LoopThread(
            "kue heartbeat",
            factory=asyncio.new_event_loop,
            on_close=lambda: self._close(twin),
        )
        renewing = thread.start(self._renew_when_late(twin))
        try:
            yield
        finally:
            # An unavailable store must not delay the stop.
            renewing.cancel()
            thread.stop()
            # After this only the worker itself may touch its lease.
            await asyncio.to_thread(thread.join, self._interval)

    async def send(self) -> None:
        """Renew the lease once; the first call carries the status of the worker."""
        jobs = [run.job for lane in self._context.lanes for run in lane.runs]
        info = self._status()
        # One call renews the lease, which is the worker's; further calls only ask about
        # more runs.
        for start in range(0, max(len(jobs), 1), MAX_BATCH):
            asked = jobs[start : start + MAX_BATCH]
            reply = await self._renew(self._context.store, asked, info)
            self._apply(asked, reply)
            if reply.overdue:
                self._on_overdue()
            for order in reply.orders:
                await self._handle_order(self._context.store, order)
            info = None

    async def _renew_when_late(self, store: Store) -> None:
        log = ThrottledLog(logger)
        while True:
            await asyncio.sleep(self._interval)
            if time.monotonic() - self._renewed_at <= self._interval * LATE:
                continue
            try:
                reply = await self._renew(store)
                for order in reply.orders:
                    await self._handle_order(store, order)
            except (StoreUnavailable, StoreFull) as exc:
                # The worker's own heartbeat reports the outage.
                logger.debug("heartbeat failed: %s", exc)
            except Exception as exc:
                log.error(
                    "the lease of worker %s cannot be renewed",
                    self._context.name,
                    exc=exc,
                )

    async def _close(self, store: Store) -> None:
        try:
            await store.close()
        except Exception:
            name = self._context.name
            logger.exception("the heartbeat thread of worker %s ended", name)

    async def _try(self) -> None:
        sent = time.monotonic()
        try:
            await (self._send_in_time() if self._strict else self.send())
        except Exception:
            if self._strict and self._trusted_seconds <= 0:
                for lane in self._context.lanes:
                    lane.cancel_all()
            raise
        self._renewed_at = sent

    async def _send_in_time(self) -> None:
        # A blocked event loop may be late: the overdue heartbeat still gets a chance.
        timeout = max(self._trusted_seconds, self._context.lease_seconds * LEASE_MARGIN)
        try:
            async with asyncio.timeout(timeout):
                await self.send()
        except TimeoutError:
            raise StoreUnavailable("a heartbeat was not answered in time") from None

    @property
    def _trusted_seconds(self) -> float:
        """How long we can still be sure that the running jobs are ours."""
        lease = self._context.lease_seconds * (1 - LEASE_MARGIN)
        return self._renewed_at + lease - time.monotonic()

    def _status(self) -> dict[str, Any] | None:
        """Return the status to send; None when nothing happened lately."""
        info = self._info()
        names = ("running", "done", "blocked", "trouble", "slots", "processes")
        activity = [info.get(name) for name in names]
        self._count += 1
        if activity == self._last_activity and self._count % HEARTBEATS_PER_STATUS:
            return None
        self._last_activity = activity
        return info

    async def _renew(
        self, store: Store, jobs: Sequence[Job] = (), info: dict[str, Any] | None = None
    ) -> HeartbeatReply:
        lease = self._context.settings.lease
        return await store.renew(
            RenewRequest(
                self._context.name, lease=lease, runs=jobs, info=info, orders=True
            )
        )

    def _apply(self, asked: list[Job], reply: HeartbeatReply) -> None:
        lost = set(reply.lost)
        self.may_claim = not reply.paused
        self.is_answered = True
        for lane in self._context.lanes:
            if reply.paused:
                lane.pause()
            else:
                lane.resume()
            for job_id, reason in reply.cancel.items():
                lane.cancel(job_id, after_cancel(reason))
            for job in asked:
                if job.id in lost:
                    lane.lose(job)
