"""Maintenance of the store, run by workers, and the check that it is still the same."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING

from kue.aio.tasks import wait_for_first

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.store.values import MaintenanceResult
    from kue.worker.shared_context import SharedContext

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


class Maintenance:
    """Maintenance of the store: promotes, rescues, expires, prunes, fires schedules."""

    def __init__(
        self,
        context: SharedContext,
        on_failures: Callable[[], None] = lambda: None,
    ) -> None:
        self._context = context
        #: Called when jobs have failed that are to be reported.
        self._on_failures = on_failures
        self._is_overdue = asyncio.Event()

    def wake(self) -> None:
        """Make a pass now: the worker that made the passes is gone."""
        self._is_overdue.set()

    async def run(self) -> None:
        """Make passes until cancelled, each second or at once while there is more."""
        while True:
            self._is_overdue.clear()
            result = await self._context.store_retry.persist("maintenance", self._pass)
            if result.elsewhere:
                rest = self._context.sleep(_scattered(ELSEWHERE_SECONDS))
                await wait_for_first(rest, self._is_overdue.wait())
            elif not result.more:
                rests = QUIET_RESTS if result.quiet else 1
                await self._context.sleep(_scattered(MAINTENANCE_SECONDS * rests))

    async def _pass(self) -> MaintenanceResult:
        settings = self._context.settings
        result = await self._context.store.tend(
            keep=settings.keep, lease=settings.lease
        )
        if result:
            logger.debug("maintenance: %s", result)
        if result.failures:
            self._on_failures()
        return result


async def check_store(context: SharedContext) -> None:
    """
    Verify that the store is still the one that was opened, and usable.

    Each minute, and when the connection was lost and is back, until cancelled.
    """
    store = context.store
    losses = store.losses
    while True:
        until = time.monotonic() + _scattered(CHECK_SECONDS)
        while store.losses == losses:
            # No event announces a loss: most callers only see a slow reply.
            await asyncio.sleep(min(CHECK_SECONDS, LOSS_SECONDS))
            if time.monotonic() >= until:
                break
        losses = store.losses
        await context.store_retry.persist("store", store.verify)


def _scattered(seconds: float) -> float:
    return seconds * random.uniform(1, 1 + MAINTENANCE_JITTER)
