"""
A Redis that loses what it acknowledged: emptied by somebody, or failed over too soon.

Clients reach it through a proxy, which leads to whichever server is the master.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.faults.sentinels import say
from tests.support.proxy import Proxy

from chaos.facts import Loss
from chaos.journal import now_ms
from chaos.replicated_stage import ReplicatedStage
from chaos.servers import tell

if TYPE_CHECKING:
    from chaos.plan import Fault


class LossyStage(ReplicatedStage):
    """The servers, the proxy before them, and what is lost there."""

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
            await tell(self._pair.master, "FLUSHALL")
            self.losses.append(Loss(since, now_ms(), is_all=True))
        else:
            with self.absence():
                await self._lose(fault.seconds)

    async def _lose(self, seconds: float) -> None:
        """Let the master alone be written to for a while, and then be gone."""
        await self.until_in_step()
        since = now_ms()
        await asyncio.to_thread(say, self._pair.replica, "REPLICAOF", "NO", "ONE")
        # The wait is the fault.
        await asyncio.sleep(seconds)
        self._pair.master.kill()
        self.swap()
        self._proxy.lead_to(self._pair.master.port)
        self.losses.append(Loss(since, now_ms()))
        await self.bring_back()
