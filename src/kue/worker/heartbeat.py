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
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from kue.aio.loop_thread import LoopThread
from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import ConfigError, StoreFull, StoreUnavailable
from kue.model.retry_policy import after_cancel
from kue.store.values import MAX_BATCH, RenewRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kue.aio.retry import StoreRetry
    from kue.model.job import Job
    from kue.store.contract import Store
    from kue.store.values import HeartbeatReply
    from kue.worker.lane import Lane

#: The worker's own heartbeat is late after this many intervals.  Ours follows within
#: another interval, long before the lease runs out.
LATE = 1.25
logger = logging.getLogger(__name__)
#: How a service sleeps; tests that control the clock pass their own.
Sleep = Callable[[float], Awaitable[None]]
#: Handles an order to the worker; takes a store that the calling thread may use.
HandleOrder = Callable[["Store", str], Awaitable[None]]
#: Two heartbeats may be lost before the lease runs out.
HEARTBEATS_PER_LEASE = 3
#: An idle worker attaches its status to every Nth heartbeat.
HEARTBEATS_PER_STATUS = 4
#: With a strict lease, runs are cancelled before it ends, by this share of it.
LEASE_MARGIN = 0.1


@asynccontextmanager
async def heartbeat_thread(
    store: Store,
    worker: str,
    lease: int,
    seconds_since_renewal: Callable[[], float],
    handle_order: HandleOrder,
) -> AsyncIterator[None]:
    """
    Renew *worker*'s lease from a thread, for as long as the context lasts.

    Only while the worker itself does not, by *seconds_since_renewal*.  *handle_order*
    is called in that thread with orders that the worker cannot receive.
    """
    try:
        twin = store.twin()
    except ConfigError:
        # The store serves only one event loop.  The worker's own heartbeat must do.
        yield
        return
    interval = lease / 1000 / HEARTBEATS_PER_LEASE

    async def renew() -> None:
        reply = await twin.renew(RenewRequest(worker, lease=lease, orders=True))
        for order in reply.orders:
            await handle_order(twin, order)

    async def renew_when_late() -> None:
        log = ThrottledLog(logger)
        while True:
            await asyncio.sleep(interval)
            try:
                if seconds_since_renewal() > interval * LATE:
                    await renew()
            except (StoreUnavailable, StoreFull) as exc:
                # The worker's own heartbeat reports the outage.
                logger.debug("heartbeat failed: %s", exc)
            except Exception as exc:
                log.error("the lease of worker %s cannot be renewed", worker, exc=exc)

    async def close() -> None:
        try:
            await twin.close()
        except Exception:
            logger.exception("the heartbeat thread of worker %s ended", worker)

    thread = LoopThread("kue heartbeat", factory=asyncio.new_event_loop, on_close=close)
    renewing = thread.start(renew_when_late())
    try:
        yield
    finally:
        # An unavailable store must not delay the stop.
        renewing.cancel()
        thread.stop()
        await asyncio.to_thread(thread.join, interval)


@dataclass(eq=False)
class Heartbeat:
    """Renews the worker's lease, and acts on the replies: cancel, lost, paused."""

    store: Store
    lanes: Sequence[Lane]
    _: KW_ONLY
    worker: str
    lease: int
    store_retry: StoreRetry
    info: Callable[[], dict[str, Any]]
    sleep: Sleep
    handle_order: HandleOrder
    on_overdue: Callable[[], None]
    strict: bool = False

    def __post_init__(self) -> None:
        self._last_activity: list[object] = []
        self._count = 0
        #: When the last confirmed heartbeat was sent, by our own clock.
        self._renewed_at = time.monotonic()

    def seconds_since_renewal(self) -> float:
        return time.monotonic() - self._renewed_at

    async def run(self) -> None:
        """Send heartbeats until cancelled."""
        while True:
            await self.store_retry.persist("heartbeat", self._try)
            await self.sleep(self.lease / 1000 / HEARTBEATS_PER_LEASE)

    async def send(self) -> None:
        """Renew the lease once; the first call carries the status of the worker."""
        jobs = [run.job for lane in self.lanes for run in lane.runs]
        info = self._status()
        # One call renews the lease, which is the worker's; further calls only ask about
        # more runs.
        for start in range(0, max(len(jobs), 1), MAX_BATCH):
            asked = jobs[start : start + MAX_BATCH]
            request = RenewRequest(
                self.worker, lease=self.lease, runs=asked, info=info, orders=True
            )
            reply = await self.store.renew(request)
            self._apply(asked, reply)
            if reply.overdue:
                self.on_overdue()
            for order in reply.orders:
                await self.handle_order(self.store, order)
            info = None

    async def _try(self) -> None:
        sent = time.monotonic()
        try:
            await (self._send_in_time() if self.strict else self.send())
        except Exception:
            if self.strict and self._trusted_seconds <= 0:
                for lane in self.lanes:
                    lane.cancel_all()
            raise
        self._renewed_at = sent

    async def _send_in_time(self) -> None:
        # A blocked event loop may be late: the overdue heartbeat still gets a chance.
        timeout = max(self._trusted_seconds, self.lease / 1000 * LEASE_MARGIN)
        try:
            async with asyncio.timeout(timeout):
                await self.send()
        except TimeoutError:
            raise StoreUnavailable("a heartbeat was not answered in time") from None

    @property
    def _trusted_seconds(self) -> float:
        """How long we can still be sure that the running jobs are ours."""
        lease = self.lease / 1000 * (1 - LEASE_MARGIN)
        return self._renewed_at + lease - time.monotonic()

    def _status(self) -> dict[str, Any] | None:
        """Return the status to send; None when nothing happened lately."""
        info = self.info()
        names = ("running", "done", "blocked", "trouble")
        activity = [info.get(name) for name in names]
        self._count += 1
        if activity == self._last_activity and self._count % HEARTBEATS_PER_STATUS:
            return None
        self._last_activity = activity
        return info

    def _apply(self, asked: list[Job], reply: HeartbeatReply) -> None:
        lost = set(reply.lost)
        for lane in self.lanes:
            if reply.paused:
                lane.pause()
            else:
                lane.resume()
            for job_id, reason in reply.cancel.items():
                lane.cancel(job_id, after_cancel(reason))
            for job in asked:
                if job.id in lost:
                    lane.lose(job)
