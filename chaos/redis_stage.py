"""A Redis with an append-only file, behind a proxy that injects network faults."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from tests.support.proxy import Fate, Proxy

from chaos.servers import LeashedRedis, RedisServers, kill

if TYPE_CHECKING:
    from pathlib import Path

    from chaos.plan import Fault

CONFIG = {"appendonly": "yes", "appendfsync": "everysec"}
#: What happens to calls while answers are dropped; the others pass.
CHANCES = {Fate.CUT_AFTER: 0.25, Fate.MUTE: 0.1, Fate.CUT_BEFORE: 0.1, Fate.HOLD: 0.05}


class RedisStage(RedisServers):
    """The server, the proxy in front of it, and their faults."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder)
        self._random = Random(f"calls {seed}")

    @property
    def masters(self) -> list[LeashedRedis]:
        return [self._server]

    async def start(self) -> None:
        self._server = await asyncio.to_thread(
            LeashedRedis, self._folder, config=CONFIG
        )
        self._cleanup.callback(self._server.stop)
        self._proxy = await self._cleanup.enter_async_context(Proxy(self._server.port))
        self.url, self.direct = self._proxy.url, self._server.url

    async def heal(self) -> None:
        self._proxy.heal()
        self._proxy.cut()
        await super().heal()

    async def strike_own(self, fault: Fault) -> None:
        if fault.kind == "cut":
            self._proxy.cut()
            return
        with self.absence():
            if fault.kind == "redis_kill":
                await kill(self._server, fault.seconds)
            else:
                await self._disturb(fault)

    async def _disturb(self, fault: Fault) -> None:
        if fault.kind == "swallow":
            self._proxy.swallow()
        else:
            self._proxy.draw(self._random, CHANCES)
        try:
            # The duration of the fault.
            await asyncio.sleep(fault.seconds)
        finally:
            self._proxy.heal()
        # Muted connections stay mute: for their clients the fault would not end.
        self._proxy.cut()
        # Calls that were held arrive late, after they have been repeated.
        for _ in range(self._proxy.struck.pop(Fate.HOLD, 0)):
            await self._proxy.release()
