"""Processes that tests start, listen to, freeze and kill."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

_HOME = Path(__file__).parents[2]


class Process:
    """One run of a program of ours, from ``async with`` on; killed at its end."""

    def __init__(
        self,
        role: str,
        url: str,
        prefix: str,
        name: str,
        *,
        program: str = "tests.faults.program",
    ) -> None:
        self._arguments = ("-m", program, role, url, prefix, name)
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Process:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *self._arguments,
            cwd=_HOME,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert await self.line() == "ready"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        await self.rest()
        await self._running.wait()

    async def line(self) -> str:
        """Return what it says next; empty once it is gone."""
        process = self._running
        assert process.stdout is not None
        return (await process.stdout.readline()).decode().rstrip("\n")

    async def rest(self) -> list[str]:
        """Return all it still has to say before it ends."""
        process = self._running
        assert process.stdout is not None
        return (await process.stdout.read()).decode().splitlines()

    def tell(self) -> None:
        """Let it go on."""
        process = self._running
        assert process.stdin is not None
        process.stdin.write(b"go on\n")

    def freeze(self) -> None:
        os.kill(self._running.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._running.pid, signal.SIGCONT)

    def terminate(self) -> None:
        """Ask it to end, as an operator would."""
        self._running.terminate()

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
            self._running.kill()

    @property
    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "it was not started"
        return self._process
