"""
A Redis that loses acknowledged writes: emptied, or failed over too early.

Clients reach it through a proxy, which forwards to the current master.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.faults.sentinels import say
from tests.support.proxy import Proxy

from chaos.facts import Loss
from chaos.journal import now_ms
from chaos.replicated_stage import ReplicatedStage
from chaos.servers import execute

if TYPE_CHECKING:
    from chaos.plan import Fault


class LossyStage(ReplicatedStage):
    """The servers, the proxy in front of them, and their losses."""

    async def start(self) -> None:
        await super().start()
        self._proxy = await self._cleanup.enter_async_context(
            Proxy(self._pair.master.port)
        )
        self.url = self.direct = self._proxy.url

    async def strike_own(self, fault: Fault) -> None:
        if fault.kind == "cut":
            self._proxy.cut()
        elif fault.kind == "empty":
            since = now_ms()
            await execute(self._pair.master, "FLUSHALL")
            self.losses.append(Loss(since, now_ms(), is_all=True))
        else:
            with self.absence():
                await self._lose(fault.seconds)

    async def _lose(self, seconds: float) -> None:
        """Let only the master receive writes for a while, then kill it."""
        await self.until_in_step()
        since = now_ms()
        await asyncio.to_thread(say, self._pair.replica, "REPLICAOF", "NO", "ONE")
        # Writes in this time are lost.
        await asyncio.sleep(seconds)
        self._pair.master.kill()
        self.swap()
        self._proxy.lead_to(self._pair.master.port)
        self.losses.append(Loss(since, now_ms()))
        await self.bring_back()
