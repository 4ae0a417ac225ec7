"""Heartbeats for children, also for those whose interpreter is held by a handler."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import TYPE_CHECKING, Any

from kue.aio.retry import StoreRetry
from kue.aio.tasks import wait_for_first
from kue.store import store_for
from kue.store.values import RenewRequest
from kue.worker.heartbeat import HEARTBEATS_PER_LEASE

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.model.settings import Settings
    from kue.store.contract import Store
    from kue.supervisor.child_process import ChildProcess
    from kue.supervisor.protocol import Hello

logger = logging.getLogger(__name__)


class LeaseRenewal:
    """Renews the lease of one worker, three times per lease, while it is alive."""

    def __init__(
        self,
        store: Store,
        worker: str,
        lease: int,
        *,
        store_retry: StoreRetry,
        is_alive: Callable[[], bool] = lambda: True,
        info: Callable[[], dict[str, Any] | None] = lambda: None,
    ) -> None:
        self._store = store
        self._worker = worker
        self._lease = lease
        self._store_retry = store_retry
        self._is_alive = is_alive
        self._info = info
        self._answered = -math.inf

    @property
    def has_answer(self) -> bool:
        """Whether the store answered within the last lease."""
        return time.monotonic() - self._answered <= self._lease / 1000

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            await self._store_retry.persist(f"heartbeat of {self._worker}", self._renew)
            await asyncio.sleep(self._lease / 1000 / HEARTBEATS_PER_LEASE)

    async def _renew(self) -> None:
        # Checked before each try: a worker may freeze while its store is unavailable.
        if self._is_alive():
            await self._store.renew(
                RenewRequest(self._worker, lease=self._lease, info=self._info())
            )
        # Also without a call: a frozen worker is not a failure of the store.
        self._answered = time.monotonic()


class ChildHeartbeats:
    """Renews the leases of all children, with its own connections to their stores."""

    def __init__(self) -> None:
        self._renewals: dict[ChildProcess, LeaseRenewal] = {}
        self._stores: dict[Settings, tuple[Store, StoreRetry]] = {}

    def has_answer(self, child: ChildProcess) -> bool:
        """Whether the store of *child* answered within its last lease."""
        renewal = self._renewals.get(child)
        return renewal is None or renewal.has_answer

    async def renew_while_alive(self, child: ChildProcess, hello: Hello) -> None:
        """Renew the lease of *child* while it lives; then deregister it."""
        if hello.beats_itself:
            return
        self._renewals[child] = renewal = self._renewal(child, hello)
        try:
            await wait_for_first(child.gone.wait(), renewal.run())
        finally:
            del self._renewals[child]
        # The process is gone for certain: nobody need wait for its lease to run out.
        # If it deregistered itself, we may have renewed its lease since.
        store, _ = self._stores[hello.settings]
        try:
            await store.leave(hello.worker)
        except Exception as exc:
            logger.debug("worker %s could not be deregistered: %s", hello.worker, exc)

    async def close(self) -> None:
        for store, _ in self._stores.values():
            await store.close()

    def store_of(self, settings: Settings) -> Store:
        """Return the supervisor's own connection to a store."""
        return self._store_of(settings)[0]

    def _store_of(self, settings: Settings) -> tuple[Store, StoreRetry]:
        if settings not in self._stores:
            store = store_for(settings)
            self._stores[settings] = store, StoreRetry(store.name)
        return self._stores[settings]

    def _renewal(self, child: ChildProcess, hello: Hello) -> LeaseRenewal:
        settings = hello.settings
        store, store_retry = self._store_of(settings)
        return LeaseRenewal(
            store,
            hello.worker,
            settings.lease,
            store_retry=store_retry,
            is_alive=lambda: not child.is_frozen,
            info=lambda: _info_of(child),
        )


def _info_of(child: ChildProcess) -> dict[str, Any] | None:
    """Return the status of a child that cannot report it, with its event loop's lag."""
    if not child.is_silent:
        return None
    return {**child.status, "lag_ms": round(child.silence * 1000)}
