"""``kue dashboard`` and ``kue up`` as processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import httpx

from tests.support.patience import PATIENCE_SECONDS
from tests.support.warm import COMMAND, Running, start

#: An app whose jobs last until there is a certain file.
APP = """
import asyncio
import os
import kue

q = kue.Kue("sqlite:///kue.db", lease="10s")

@q.task
async def nap(alarm: str) -> str:
    open(f"{alarm}.set", "w").close()
    while not os.path.exists(alarm):
        await asyncio.sleep(0.02)
    return "rested"
"""


class Command:
    """A command that goes on until it is ended."""

    def __init__(self, process: Running) -> None:
        self.process = process
        #: What it wrote so far, both ways.
        self.said = ""
        self._reading = [
            asyncio.create_task(self._read(stream))
            for stream in (process.stdout, process.stderr)
        ]
        self._news = asyncio.Event()

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while line := await stream.readline():
            self.said += line.decode()
            self._news.set()
        self._news.set()

    async def says(self, pattern: str) -> str:
        """Return what matches, once it was said."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (found := re.search(pattern, self.said)) is None:
                self._news.clear()
                await self._news.wait()
                assert not self._is_over, self.said
        return found[0]

    @property
    def _is_over(self) -> bool:
        return all(reading.done() for reading in self._reading)

    async def url(self) -> str:
        """Return where it serves, without the start-up token."""
        return (await self.address()).partition("?")[0]

    async def address(self) -> str:
        """Return what it prints to be opened."""
        return await self.says(r"https?://[^\s]+/(\?token=[^\s]+)?(?=\s)")

    async def headers(self) -> dict[str, str]:
        """Return what lets a program in."""
        token = (await self.address()).partition("?token=")[2]
        return {"Authorization": f"Bearer {token}"} if token else {}

    async def get(self, path: str) -> httpx.Response:
        """Ask for *path*, as someone who can read the terminal."""
        return await get(await self.url() + path, await self.headers())

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send it a signal and return its exit code."""
        self.process.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        async with asyncio.timeout(PATIENCE_SECONDS):
            code = await self.process.wait()
            await asyncio.gather(*self._reading)
        return code


@contextlib.asynccontextmanager
async def command(
    *arguments: str, folder: Path, **environment: str
) -> AsyncIterator[Command]:
    """Run ``kue`` in *folder*; it is killed after the context."""
    ours = ("KUE_", "REDIS_")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    process = await start(
        *(COMMAND, *arguments),
        cwd=folder,
        environ=environ | {"PYTHONUNBUFFERED": "1"} | environment,
        has_log=True,
    )
    running = Command(process)
    try:
        yield running
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await running.ended()
        await process.close()


async def get(url: str, headers: dict[str, str] | None = None) -> httpx.Response:
    async with httpx.AsyncClient(timeout=PATIENCE_SECONDS, verify=False) as client:
        return await client.get(url, headers=headers)
