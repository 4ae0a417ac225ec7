"""
A beat from a thread, for workers without a supervisor.

A handler that blocks the event loop keeps the worker's own beat from being sent.  The
pulse does it instead: it has a thread, an event loop and a connection of its own.  Only
code that holds the interpreter stops it too; against that there is ``kue worker``,
where another process beats.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import ConfigError, StoreFull, StoreUnavailable
from kue.worker.heartbeat import BEATS_PER_LEASE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kue.store.contract import Store
    from kue.worker.heartbeat import Obey

logger = logging.getLogger(__name__)

#: A beat of the worker's own that is overdue by this much of its pause is late.  Ours
#: comes within another pause, long before the lease is over.
LATE = 1.25


@asynccontextmanager
async def pulse(
    store: Store,
    worker: str,
    lease: int,
    silence: Callable[[], float],
    obey: Obey,
) -> AsyncIterator[None]:
    """
    Renew *worker*'s lease from a thread, for as long as the context lasts.

    Only when the worker itself does not: *silence* tells for how many seconds.  *obey*
    is called in that thread with orders for the worker, which cannot hear them.
    """
    try:
        twin = store.twin()
    except ConfigError:
        # A store that serves one event loop alone.  The worker's own beat must do.
        yield
        return
    beating = _Pulse(twin, worker, lease, silence, obey)
    beating.start()
    try:
        yield
    finally:
        await asyncio.to_thread(beating.stop)


class _Pulse(threading.Thread):
    def __init__(
        self,
        store: Store,
        worker: str,
        lease: int,
        silence: Callable[[], float],
        obey: Obey,
    ) -> None:
        super().__init__(name="kue pulse", daemon=True)
        self._store = store
        self._worker = worker
        self._lease = lease
        self._silence = silence
        self._obey = obey
        self._pause = lease / 1000 / BEATS_PER_LEASE
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._log = ThrottledLog(logger)

    def run(self) -> None:
        try:
            asyncio.run(self._beat())
        except Exception:
            logger.exception("the beating thread of worker %s ended", self._worker)
        finally:
            self._ready.set()

    def stop(self) -> None:
        """Beat no more; the next to speak of the worker's lease must be the worker."""
        self._ready.wait()
        if self._loop is not None and self._over is not None and self.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
        self.join(timeout=self._pause)

    async def _beat(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._ready.set()
        beating = asyncio.create_task(self._watch(), name="kue pulse")
        try:
            await self._over.wait()
        finally:
            # A store that is away must not keep us.
            beating.cancel()
            await self._store.close()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            if self._silence() > self._pause * LATE:
                await self._try()

    async def _try(self) -> None:
        try:
            beat = await self._store.renew(self._worker, lease=self._lease, orders=True)
            for order in beat.orders:
                await self._obey(self._store, order)
        except (StoreUnavailable, StoreFull) as exc:
            # The worker's own heartbeat reports the outage.
            logger.debug("no heartbeat: %s", exc)
        except Exception as exc:
            self._log.error(
                "the lease of worker %s cannot be renewed", self._worker, exc=exc
            )
