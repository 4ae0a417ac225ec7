"""
A Redis that loses what it acknowledged: emptied by somebody, or failed over too soon.

Clients reach it through a proxy, which leads to whichever server is the master.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.faults.sentinels import Replicated, say
from tests.support.proxy import Proxy
from tests.support.servers import HOST

from chaos.facts import Loss
from chaos.journal import now_ms
from chaos.servers import LeashedRedis, RedisServers, surely, tell

if TYPE_CHECKING:
    from tests.support.servers import RedisServer

    from chaos.plan import Fault


class LossyStage(RedisServers):
    """A master and its replica, the proxy before them, and what is lost there."""

    @property
    def masters(self) -> list[RedisServer]:
        return [self._pair.master]

    async def start(self) -> None:
        self._pair = await asyncio.to_thread(
            Replicated, self._folder, kind=LeashedRedis
        )
        self._cleanup.callback(self._pair.stop)
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
        pair = self._pair
        await surely(pair.is_in_step)
        since = now_ms()
        say(pair.replica, "REPLICAOF", "NO", "ONE")
        # The wait is the fault.
        await asyncio.sleep(seconds)
        pair.master.kill()
        pair.master, pair.replica = pair.replica, pair.master
        self._proxy.lead_to(pair.master.port)
        self.losses.append(Loss(since, now_ms()))
        await asyncio.to_thread(pair.replica.restart)
        say(pair.replica, "REPLICAOF", HOST, str(pair.master.port))
        await surely(pair.is_in_step)
