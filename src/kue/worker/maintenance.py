"""Maintenance of the store, run by workers, and the check that it is still the same."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kue.aio.retry import StoreRetry
    from kue.model.settings import Keep
    from kue.store.contract import Store
    from kue.store.values import MaintenanceResult
    from kue.worker.heartbeat import Sleep

logger = logging.getLogger(__name__)

#: Between two passes of maintenance.
MAINTENANCE_SECONDS = 1.0
#: How much longer to rest when the store reports that nothing is due.
QUIET_RESTS = 2
#: How long, if another worker makes the passes: heartbeats report when it stops.
ELSEWHERE_SECONDS = 30.0
#: How often the store is compared with what it was when it was opened.
CHECK_SECONDS = 60.0
#: How soon after the connection was lost and restored.
LOSS_SECONDS = 1.0
#: So that many workers do not run maintenance at the same moment.
MAINTENANCE_JITTER = 0.2


@dataclass(eq=False)
class Maintenance:
    """Maintenance of the store: promotes, rescues, expires, prunes, fires schedules."""

    store: Store
    _: KW_ONLY
    keep: Keep
    lease: int
    store_retry: StoreRetry
    sleep: Sleep

    def __post_init__(self) -> None:
        self._is_overdue = asyncio.Event()

    def wake(self) -> None:
        """Make a pass now: the worker that made the passes is gone."""
        self._is_overdue.set()

    async def run(self) -> None:
        """Make passes until cancelled, each second or at once while there is more."""
        while True:
            self._is_overdue.clear()
            result = await self.store_retry.persist("maintenance", self._pass)
            if result.elsewhere:
                await self._rest_until_overdue()
            elif not result.more:
                rests = QUIET_RESTS if result.quiet else 1
                await self.sleep(_scattered(MAINTENANCE_SECONDS * rests))

    async def _rest_until_overdue(self) -> None:
        rest = asyncio.ensure_future(self.sleep(_scattered(ELSEWHERE_SECONDS)))
        overdue = asyncio.ensure_future(self._is_overdue.wait())
        try:
            await asyncio.wait([rest, overdue], return_when=asyncio.FIRST_COMPLETED)
        finally:
            rest.cancel()
            overdue.cancel()

    async def _pass(self) -> MaintenanceResult:
        result = await self.store.tend(keep=self.keep, lease=self.lease)
        if result:
            logger.debug("maintenance: %s", result)
        return result


class StoreCheck:
    """Verifies that the store is still the one that was opened, and usable."""

    def __init__(self, store: Store, *, store_retry: StoreRetry) -> None:
        self._store = store
        self._store_retry = store_retry
        self._losses = store.losses

    async def run(self) -> None:
        """Check each minute, and when the connection was lost and is back."""
        while True:
            await self._rest()
            self._losses = self._store.losses
            await self._store_retry.persist("store", self._store.verify)

    async def _rest(self) -> None:
        until = time.monotonic() + _scattered(CHECK_SECONDS)
        while self._store.losses == self._losses:
            # No event announces a loss: most callers only see a slow reply.
            await asyncio.sleep(min(CHECK_SECONDS, LOSS_SECONDS))
            if time.monotonic() >= until:
                return


def _scattered(seconds: float) -> float:
    return seconds * random.uniform(1, 1 + MAINTENANCE_JITTER)
