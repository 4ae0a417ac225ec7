"""The dashboard's server as a separate process, for benchmarks."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
import uvloop
from tests.support.servers import HOST

import kue
from kue.http import create_app
from kue.http.auth.access import Anyone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MEGABYTE = 1_000_000


class Serving:
    """The server process, seen from the benchmark."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._pid = process.pid
        self.port = port

    @property
    def memory(self) -> int:
        """Its resident memory in bytes."""
        pages = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def cpu_seconds(self) -> float:
        stat = Path(f"/proc/{self._pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def started(url: str) -> AsyncIterator[Serving]:
    """Start a server, and kill it after the body."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.serving", url),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield Serving(process, int(await process.stdout.readline()))
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


async def _serve(url: str) -> None:
    async with kue.Kue(url) as q:
        with socket.create_server((HOST, 0), backlog=1_000) as listener:
            sys.stdout.write(f"{listener.getsockname()[1]}\n")
            sys.stdout.flush()
            config = uvicorn.Config(
                create_app(q, guard=Anyone()),
                lifespan="off",
                log_level="warning",
                access_log=False,
            )
            await uvicorn.Server(config).serve([listener])


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1]))
