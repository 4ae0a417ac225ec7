"""Beating for children, also for those whose interpreter is held by a handler."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import TYPE_CHECKING, Any

from kue.aio.retry import StoreRetry
from kue.store import store_for
from kue.supervisor.protocol import Hello
from kue.worker.heartbeat import BEATS_PER_LEASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.model.settings import Settings
    from kue.store.contract import Store
    from kue.supervisor.child_process import ChildProcess

logger = logging.getLogger(__name__)

#: What `workers` shows of a worker.
Info = dict[str, Any]


class LeaseRenewal:
    """Renews the lease of one worker, every third of it, while it is alive."""

    def __init__(
        self,
        store: Store,
        worker: str,
        lease: int,
        *,
        outage: StoreRetry,
        is_alive: Callable[[], bool] = lambda: True,
        info: Callable[[], Info | None] = lambda: None,
    ) -> None:
        self._store = store
        self._worker = worker
        self._lease = lease
        self._outage = outage
        self._is_alive = is_alive
        self._info = info
        self._answered = -math.inf

    @property
    def has_answer(self) -> bool:
        """Whether the store answered within the time of a lease."""
        return time.monotonic() - self._answered <= self._lease / 1000

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            await self._outage.persist(f"beat of {self._worker}", self._beat)
            await asyncio.sleep(self._lease / 1000 / BEATS_PER_LEASE)

    async def _beat(self) -> None:
        # Looked at before each try: a worker may freeze while its store is away.
        if self._is_alive():
            await self._store.renew(self._worker, lease=self._lease, info=self._info())
        # What was not asked need not be answered.
        self._answered = time.monotonic()


class ChildHeartbeats:
    """Beats for every child, on stores of its own."""

    def __init__(self) -> None:
        self._pulses: dict[ChildProcess, LeaseRenewal] = {}
        self._stores: dict[Settings, Store] = {}
        self._outages: dict[Settings, StoreRetry] = {}

    def has_answer(self, child: ChildProcess) -> bool:
        """Whether the store of *child* answered within the time of its lease."""
        pulse = self._pulses.get(child)
        return pulse is None or pulse.has_answer

    async def attend(self, child: ChildProcess) -> None:
        """Beat for *child* while it lives; then say that it is gone."""
        hello = await child.up
        if not isinstance(hello, Hello) or hello.beats_itself:
            return
        self._pulses[child] = pulse = self._pulse(child, hello)
        beating = asyncio.create_task(pulse.run(), name=f"kue beat {hello.worker}")
        try:
            await child.gone.wait()
        finally:
            beating.cancel()
            del self._pulses[child]
        await self._leave(hello)

    async def close(self) -> None:
        for store in self._stores.values():
            await store.close()

    def _pulse(self, child: ChildProcess, hello: Hello) -> LeaseRenewal:
        settings = hello.settings
        if settings not in self._stores:
            store = self._stores[settings] = store_for(settings)
            self._outages[settings] = StoreRetry(store.name)
        return LeaseRenewal(
            self._stores[settings],
            hello.worker,
            settings.lease,
            outage=self._outages[settings],
            is_alive=lambda: not child.is_frozen,
            info=lambda: _info_of(child),
        )

    async def _leave(self, hello: Hello) -> None:
        # The process is gone for certain: nobody need wait for its lease to end.  And
        # one that took its own leave may have been beaten for since.
        try:
            await self._stores[hello.settings].leave(hello.worker)
        except Exception as exc:
            logger.debug("no leave was taken for worker %s: %s", hello.worker, exc)


def _info_of(child: ChildProcess) -> Info | None:
    """Say for a child that cannot how late its event loop is."""
    if not child.is_silent:
        return None
    return {**child.status, "lag_ms": round(child.silence * 1000)}
