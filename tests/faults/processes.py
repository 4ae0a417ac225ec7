"""Processes that tests start, listen to, freeze and kill."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from tests.support.freezing import freeze
from tests.support.patience import PATIENCE_SECONDS
from tests.support.warm import Running, start


class Process:
    """One run of a program of ours, from ``async with`` on; killed at its end."""

    def __init__(
        self,
        role: str,
        url: str,
        prefix: str,
        name: str,
        *more: str,
        program: str = "tests.faults.program",
    ) -> None:
        self._arguments = (program, role, url, prefix, name, *more)
        self._url = url
        self._process: Running | None = None

    async def __aenter__(self) -> Process:
        self._process = await start(*self._arguments)
        assert await self.line() == "ready"
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.kill()
        await self.rest()
        await self._running.close()

    async def line(self) -> str:
        """Return what it says next; empty once it is gone."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return (await self._running.stdout.readline()).decode().rstrip("\n")

    async def rest(self) -> list[str]:
        """Return all it still has to say before it ends."""
        return (await self._running.stdout.read()).decode().splitlines()

    def tell(self) -> None:
        """Let it go on."""
        self._running.write(b"go on\n")

    def freeze(self) -> None:
        """Stop it where it holds up nobody else."""
        freeze(self._running.pid, self._url)

    def thaw(self) -> None:
        os.kill(self._running.pid, signal.SIGCONT)

    def terminate(self) -> None:
        """Ask it to end, as an operator would."""
        self._running.send_signal(signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        self._running.send_signal(number)

    @property
    def pid(self) -> int:
        return self._running.pid

    async def ended(self) -> int:
        """Return its exit status once it is gone."""
        return await self._running.wait()

    def kill(self) -> None:
        """End it at once, as a crash would; what it had written can still be read."""
        with contextlib.suppress(ProcessLookupError):
            self._running.send_signal(signal.SIGKILL)

    @property
    def _running(self) -> Running:
        assert self._process is not None, "it was not started"
        return self._process
