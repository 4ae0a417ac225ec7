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
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

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
    thread.start()
    try:
        yield
    finally:
        await asyncio.to_thread(thread.stop)


class _HeartbeatThread(threading.Thread):
    def __init__(
        self,
        store: Store,
        worker: str,
        lease: int,
        seconds_since_renewal: Callable[[], float],
        handle_order: HandleOrder,
    ) -> None:
        super().__init__(name="kue heartbeat", daemon=True)
        self._store = store
        self._worker = worker
        self._lease = lease
        self._seconds_since_renewal = seconds_since_renewal
        self._handle_order = handle_order
        self._interval = lease / 1000 / HEARTBEATS_PER_LEASE
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._log = ThrottledLog(logger)

    def run(self) -> None:
        try:
            asyncio.run(self._run_until_stopped())
        except Exception:
            logger.exception("the heartbeat thread of worker %s ended", self._worker)
        finally:
            self._ready.set()

    def stop(self) -> None:
        """Stop renewing; only the worker itself may touch its lease after this."""
        self._ready.wait()
        if self._loop is not None and self._over is not None and self.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
        self.join(timeout=self._interval)

    async def _run_until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._ready.set()
        watching = asyncio.create_task(self._watch(), name="kue heartbeat")
        try:
            await self._over.wait()
        finally:
            # An unavailable store must not delay the stop.
            watching.cancel()
            await self._store.close()

    async def _watch(self) -> None:
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
