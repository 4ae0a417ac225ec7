"""
Heartbeat thread, for workers without a supervisor.

A handler that blocks the event loop delays the worker's own heartbeats.  This thread,
with its own event loop and connection, renews the lease instead.  Only code that holds
the interpreter lock stops it too; against that there is ``kue worker``, where another
process renews the lease.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kue.aio.loop_thread import LoopThread
from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import ConfigError, StoreFull, StoreUnavailable
from kue.worker.heartbeat import HEARTBEATS_PER_LEASE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kue.store.contract import Store
    from kue.worker.heartbeat import HandleOrder

logger = logging.getLogger(__name__)

#: The worker's own heartbeat is late after this many intervals.  Ours follows within
#: another interval, long before the lease runs out.
LATE = 1.25


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
    thread = _HeartbeatThread(twin, worker, lease, seconds_since_renewal, handle_order)
    try:
        yield
    finally:
        await asyncio.to_thread(thread.close)


class _HeartbeatThread(LoopThread):
    def __init__(
        self,
        store: Store,
        worker: str,
        lease: int,
        seconds_since_renewal: Callable[[], float],
        handle_order: HandleOrder,
    ) -> None:
        self._store = store
        self._worker = worker
        self._lease = lease
        self._seconds_since_renewal = seconds_since_renewal
        self._handle_order = handle_order
        self._interval = lease / 1000 / HEARTBEATS_PER_LEASE
        self._watching: asyncio.Task[None] | None = None
        self._log = ThrottledLog(logger)
        super().__init__(
            "kue heartbeat", factory=asyncio.new_event_loop, on_close=self._end
        )
        self.start(self._watch())

    def close(self) -> None:
        """Stop renewing; only the worker itself may touch its lease after this."""
        self.stop()
        self.join(timeout=self._interval)

    async def _end(self) -> None:
        # An unavailable store must not delay the stop.
        if self._watching is not None:
            self._watching.cancel()
        try:
            await self._store.close()
        except Exception:
            logger.exception("the heartbeat thread of worker %s ended", self._worker)

    async def _watch(self) -> None:
        self._watching = asyncio.current_task()
        while True:
            await asyncio.sleep(self._interval)
            if self._seconds_since_renewal() > self._interval * LATE:
                await self._try()

    async def _try(self) -> None:
        try:
            reply = await self._store.renew(
                self._worker, lease=self._lease, orders=True
            )
            for order in reply.orders:
                await self._handle_order(self._store, order)
        except (StoreUnavailable, StoreFull) as exc:
            # The worker's own heartbeat reports the outage.
            logger.debug("heartbeat failed: %s", exc)
        except Exception as exc:
            self._log.error(
                "the lease of worker %s cannot be renewed", self._worker, exc=exc
            )
