"""
A master and its replica, monitored by three Sentinels.

A fail-over loses nothing here: writes are paused until the replica has everything that
was acknowledged.  For one that does lose writes see `chaos.lossy_stage`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.faults.sentinels import Sentinels
from tests.support.servers import wait_until

from chaos.processes import leashed
from chaos.replicated_stage import ReplicatedStage
from chaos.servers import execute

if TYPE_CHECKING:
    from chaos.plan import Fault

#: A master that is stopped only for a moment stays the master: with two masters, writes
#: that the first one acknowledges would be lost.
DOWN_AFTER_MS = 10_000
#: Longer than a fail-over takes.
HOLD_MS = 60_000


class SentinelStage(ReplicatedStage):
    """The servers, the Sentinels, and their faults."""

    async def start(self) -> None:
        await super().start()
        self._sentinels = await asyncio.to_thread(
            Sentinels,
            self._folder,
            self._pair.master,
            down_after_ms=DOWN_AFTER_MS,
            wrap=leashed,
        )
        self._cleanup.callback(self._sentinels.stop)
        self.url = self.direct = self._sentinels.url

    async def strike_own(self, fault: Fault) -> None:
        if fault.kind == "sentinel_kill":
            await self._kill_sentinel(fault.seconds)
        else:
            with self.absence():
                await self._fail_over(fault.seconds)

    async def _kill_sentinel(self, seconds: float) -> None:
        port = await asyncio.to_thread(self._sentinels.stop_one)
        try:
            # The duration of the fault.
            await asyncio.sleep(seconds)
        finally:
            self._sentinels.start_one(port)

    async def _fail_over(self, seconds: float) -> None:
        """Kill the master once its replica has everything; restart it as a replica."""
        master, replica = self._pair.master, self._pair.replica
        await execute(master, "CLIENT", "PAUSE", HOLD_MS, "WRITE")
        await self.until_in_step()
        await asyncio.to_thread(self._sentinels.until_acquainted)
        master.kill()
        await asyncio.to_thread(self._sentinels.fail_over)
        await asyncio.to_thread(
            wait_until,
            lambda: self._sentinels.has_master(replica),
            "the Sentinels agree on the new master",
        )
        self.swap()
        await asyncio.sleep(seconds)
        await self.bring_back()
