"""
What many open streams of events cost: memory and time of the server, events lost.

``python -m benchmarks.streams`` starts a Redis and a server of its own, opens streams
and adds jobs at a steady rate; every add is told to every stream.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.support.servers import HOST, RedisServer

import kue
from kue.http.access import Anyone
from kue.http.api import Api
from kue.http.live import Live
from kue.http.v1.events import section

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: Adds a second are made in so many pieces.
PIECES = 20
#: Seconds the last events may take.
PATIENCE_SECONDS = 4.0
MEGABYTE = 1_000_000
REQUEST = f"GET /api/v1/events HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode()
_MISSED = re.compile(rb'event: lagged\n(?:id: .*\n)?data: .*"missed":(\d+)')


class Stream(asyncio.Protocol):
    """One client; it counts."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.heard = 0
        self.missed = 0
        self._rest = b""

    def data_received(self, data: bytes) -> None:
        whole, _, rest = (self._rest + data).rpartition(b"\n\n")
        self._rest = rest
        self.heard += whole.count(b'"kind":"enqueue"')
        self.missed += sum(int(number) for number in _MISSED.findall(whole))
        if b"event: store" in whole:
            self.is_open.set()


class Serving:
    """The server's process, as those who measure it see it."""

    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self._pid = process.pid
        self.port = port

    @property
    def memory(self) -> int:
        """Bytes it holds."""
        pages = int(Path(f"/proc/{self._pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def cpu_seconds(self) -> float:
        stat = Path(f"/proc/{self._pid}/stat").read_text()
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def started(url: str) -> AsyncIterator[Serving]:
    """Start a server; after the body it is ended."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.streams", "--serve", url),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        yield Serving(process, int(await process.stdout.readline()))
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


@click.command()
@click.option("--streams", default=200, show_default=True)
@click.option("--rate", default=2_000, show_default=True, help="Adds a second.")
@click.option("--seconds", default=10, show_default=True)
@click.option("--serve", hidden=True, help="Be the server, of this Redis.")
def main(streams: int, rate: int, seconds: int, serve: str | None) -> None:
    """
    Measure what many open streams of events cost.

    Needs redis-server in PATH; it is started on a free port, and ended.
    """
    if serve is not None:
        uvloop.run(_serve(serve))
        return
    with TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        try:
            uvloop.run(_measure(server.url, streams, rate, seconds))
        finally:
            server.stop()


async def _serve(url: str) -> None:
    async with kue.Kue(url) as q:
        paths = Api(q, Anyone()).routes([section])
        app = Starlette(routes=[Mount("/api/v1", routes=paths)])
        app.state.live = Live(q)
        with socket.create_server((HOST, 0), backlog=1_000) as listener:
            sys.stdout.write(f"{listener.getsockname()[1]}\n")
            sys.stdout.flush()
            config = uvicorn.Config(
                app, lifespan="off", log_level="warning", access_log=False
            )
            await uvicorn.Server(config).serve([listener])


async def _measure(url: str, streams: int, rate: int, seconds: int) -> None:
    async with started(url) as server, kue.Kue(url) as q:
        alone = server.memory
        clients = await _open(server.port, streams)
        opened, cpu = server.memory, server.cpu_seconds
        added, took = await _add(q, rate, seconds)
        late = await _heard(clients, added)
        cpu = server.cpu_seconds - cpu
        heard = sum(client.heard for client in clients)
        missed = sum(client.missed for client in clients)
        rows = {
            "streams": f"{streams:,}",
            "adds a second": f"{added / took:,.0f}",
            "events delivered": f"{heard:,} of {added * streams:,}",
            "events told as lagged": f"{missed:,}",
            "streams that lagged": f"{sum(c.missed > 0 for c in clients):,}",
            "last event after the last add, s": f"{late:.2f}",
            "server's share of a core, %": f"{cpu / (took + late) * 100:.0f}",
            "server's memory alone, MB": f"{alone / MEGABYTE:.1f}",
            "with the streams open, MB": f"{opened / MEGABYTE:.1f}",
            "after the last event, MB": f"{server.memory / MEGABYTE:.1f}",
        }
    for what, value in rows.items():
        print(f"{what:34}{value}")


async def _open(port: int, streams: int) -> list[Stream]:
    """Open the streams; return once each hears."""
    loop = asyncio.get_running_loop()
    clients = []
    for _ in range(streams):
        transport, client = await loop.create_connection(Stream, HOST, port)
        transport.write(REQUEST)
        clients.append(client)
    await asyncio.gather(*(client.is_open.wait() for client in clients))
    return clients


async def _add(q: kue.Kue, rate: int, seconds: int) -> tuple[int, float]:
    """Add jobs at that rate; return how many, and how long it took."""
    began, added = time.monotonic(), 0
    for piece in range(seconds * PIECES):
        await asyncio.sleep(began + piece / PIECES - time.monotonic())
        added += len(await q.enqueue_many("noop", range(rate // PIECES)))
    return added, time.monotonic() - began


async def _heard(clients: list[Stream], added: int) -> float:
    """Return after how many seconds all was heard, or told as missed."""
    began = time.monotonic()
    while any(client.heard + client.missed < added for client in clients):
        if time.monotonic() - began > PATIENCE_SECONDS:
            break
        await asyncio.sleep(0.01)
    return time.monotonic() - began


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.streams")
