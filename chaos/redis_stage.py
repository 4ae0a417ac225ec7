"""A Redis with an append-only file, behind a proxy that does what networks do."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from random import Random
from typing import TYPE_CHECKING, Any

import redis
from tests.support.proxy import Fate, Proxy
from tests.support.servers import RedisServer

from chaos.processes import leashed, send
from chaos.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path

    from chaos.plan import Fault

CONFIG = {"appendonly": "yes", "appendfsync": "everysec"}
#: What becomes of calls while answers are dropped; the others pass.
CHANCES = {Fate.CUT_AFTER: 0.25, Fate.MUTE: 0.1, Fate.CUT_BEFORE: 0.1, Fate.HOLD: 0.05}


class LeashedRedis(RedisServer):
    """A Redis that dies with us."""

    def _command(self) -> list[str]:
        return leashed(super()._command())


class RedisStage(Stage):
    """The server, the proxy before it, and what is done to either."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__()
        self._folder = folder
        self._random = Random(f"calls {seed}")
        #: Faults of the server and of the network come one after another.
        self._one_by_one = asyncio.Lock()
        self._cleanup = contextlib.AsyncExitStack()

    async def __aenter__(self) -> RedisStage:
        directory = self._folder / "redis"
        directory.mkdir()
        self._server = await asyncio.to_thread(LeashedRedis, directory, config=CONFIG)
        self._cleanup.callback(self._server.stop)
        self._proxy = await self._cleanup.enter_async_context(Proxy(self._server.port))
        self.url, self.direct = self._proxy.url, self._server.url
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._cleanup.aclose()

    async def heal(self) -> None:
        async with self._one_by_one:
            self._proxy.heal()
            self._proxy.cut()
            if not self._server.is_running:
                await asyncio.to_thread(self._server.restart)

    async def strike(self, fault: Fault) -> None:
        async with self._one_by_one:
            match fault.kind:
                case "cut":
                    self._proxy.cut()
                case "flush":
                    await self._tell("SCRIPT", "FLUSH")
                case "client_kill":
                    await self._tell("CLIENT", "KILL", "TYPE", "normal")
                    await self._tell("CLIENT", "KILL", "TYPE", "pubsub")
                case _:
                    await self._strike_for_a_while(fault)

    async def _strike_for_a_while(self, fault: Fault) -> None:
        with self.absence():
            match fault.kind:
                case "client_pause":
                    await self._tell("CLIENT", "PAUSE", int(fault.seconds * 1000))
                    await asyncio.sleep(fault.seconds)
                case "redis_kill":
                    await self._kill(fault.seconds)
                case "redis_stop":
                    await self._freeze(fault.seconds)
                case _:
                    await self._disturb(fault)

    async def _disturb(self, fault: Fault) -> None:
        if fault.kind == "swallow":
            self._proxy.swallow()
        else:
            self._proxy.draw(self._random, CHANCES)
        try:
            # The wait is the fault, here and below.
            await asyncio.sleep(fault.seconds)
        finally:
            self._proxy.heal()
        # Connections that went mute say no more: to their owners the fault goes on.
        self._proxy.cut()
        # What was held on its way arrives late, after it has been said again.
        for _ in range(self._proxy.struck.pop(Fate.HOLD, 0)):
            await self._proxy.release()

    async def _kill(self, seconds: float) -> None:
        # With everysec Redis holds writes back while the disk is busy, answers them all
        # the same, and loses them with its process.  That is no fault of Kue's.
        await self._tell("CONFIG", "SET", "appendfsync", "always")
        self._server.kill()
        try:
            await asyncio.sleep(seconds)
        finally:
            await asyncio.to_thread(self._server.restart)

    async def _freeze(self, seconds: float) -> None:
        pid = self._server.pid
        send(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(seconds)
        finally:
            send(pid, signal.SIGCONT)

    async def _tell(self, *command: str | int) -> None:
        await asyncio.to_thread(self._tell_now, *command)

    def _tell_now(self, *command: str | int) -> None:
        client: Any = self._server.client()
        # It may still be paused, or cut us off as it was told.
        with contextlib.closing(client), contextlib.suppress(redis.RedisError):
            client.execute_command(*command)
