"""Redis servers of a run, and the faults that they share."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import redis
from tests.support.servers import RedisServer

from chaos.processes import leashed, send
from chaos.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from chaos.plan import Fault


class LeashedRedis(RedisServer):
    """A Redis that dies with this process."""

    def _command(self) -> list[str]:
        return leashed(super()._command())


class RedisServers(Stage):
    """Servers of one kind, and the faults that all kinds share."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder / "redis"
        #: Faults of servers and of the network come one after another.
        self._one_by_one = asyncio.Lock()
        self._cleanup = contextlib.AsyncExitStack()

    @property
    @abstractmethod
    def masters(self) -> Sequence[RedisServer]:
        """The servers that take writes now."""

    @abstractmethod
    async def start(self) -> None:
        """Start everything, and set the URLs."""

    @abstractmethod
    async def strike_own(self, fault: Fault) -> None:
        """Inject a fault that only servers of this kind have."""

    async def __aenter__(self) -> RedisServers:
        self._folder.mkdir()
        try:
            await self.start()
        except BaseException:
            await self._cleanup.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._cleanup.aclose()

    async def heal(self) -> None:
        async with self._one_by_one:
            for server in self.masters:
                if not server.is_running:
                    await asyncio.to_thread(server.restart)

    async def strike(self, fault: Fault) -> None:
        async with self._one_by_one:
            match fault.kind:
                case "flush":
                    await self._execute_on_all("SCRIPT", "FLUSH")
                case "client_kill":
                    await self._execute_on_all("CLIENT", "KILL", "TYPE", "normal")
                    await self._execute_on_all("CLIENT", "KILL", "TYPE", "pubsub")
                case "client_pause":
                    with self.absence():
                        await self._execute_on_all(
                            "CLIENT", "PAUSE", int(fault.seconds * 1000)
                        )
                        # The duration of the fault.
                        await asyncio.sleep(fault.seconds)
                case "redis_stop":
                    with self.absence():
                        await freeze(self.picked(fault), fault.seconds)
                case _:
                    await self.strike_own(fault)

    def picked(self, fault: Fault) -> RedisServer:
        """Return the master that *fault* is for."""
        return self.masters[int(fault.pick * len(self.masters))]

    async def _execute_on_all(self, *command: str | int) -> None:
        for server in self.masters:
            await execute(server, *command)


async def kill(server: RedisServer, seconds: float) -> None:
    """Kill a server that keeps its data on disk; start it again after a while."""
    # With everysec Redis delays writes while the disk is busy, acknowledges them all
    # the same, and loses them with its process.  That is not a fault of Kue.
    await execute(server, "CONFIG", "SET", "appendfsync", "always")
    server.kill()
    try:
        await asyncio.sleep(seconds)
    finally:
        await asyncio.to_thread(server.restart)


async def freeze(server: RedisServer, seconds: float) -> None:
    """Stop a server for a while; it can notice only by the clock."""
    pid = server.pid
    send(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(seconds)
    finally:
        send(pid, signal.SIGCONT)


async def execute(server: RedisServer, *command: str | int) -> None:
    """Send a command and ignore errors: it may be paused, or kill our connection."""

    def send_it() -> None:
        client: Any = server.client()
        with contextlib.closing(client), contextlib.suppress(redis.RedisError):
            client.execute_command(*command)

    await asyncio.to_thread(send_it)
