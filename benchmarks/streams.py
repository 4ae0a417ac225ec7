"""
The cost of many open event streams: memory and CPU time of the server, events lost.

``python -m benchmarks.streams`` starts a Redis and a server, opens streams and adds
jobs at a steady rate; every add is published to every stream.  Some clients read
nothing until the end: they are notified how much they missed, and affect no others.
"""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import click
import uvloop
from redis.asyncio import Redis
from tests.support.servers import HOST, RedisServer

import kue
from benchmarks.serving import MEGABYTE, started

#: Pieces into which the adds of a second are divided.
PIECES = 20
#: Seconds the last events may take.
PATIENCE_SECONDS = 10.0
REQUEST = f"GET /api/v1/events HTTP/1.0\r\nHost: {HOST}\r\n\r\n".encode()
_MISSED = re.compile(rb'event: lagged\n(?:id: .*\n)?data: .*"missed":(\d+)')


class Stream(asyncio.Protocol):
    """One client, which counts events."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.received = 0
        self.missed = 0
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def stop_reading(self) -> None:
        assert self._transport is not None
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        assert self._transport is not None
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        whole, _, rest = (self._rest + data).rpartition(b"\n\n")
        self._rest = rest
        self.received += whole.count(b'"kind":"enqueue"')
        self.missed += sum(int(number) for number in _MISSED.findall(whole))
        if b"event: store" in whole:
            self.is_open.set()


@click.command()
@click.option("--streams", default=200, show_default=True)
@click.option("--slow", default=5, show_default=True, help="Additional idle clients.")
@click.option("--rate", default=2_000, show_default=True, help="Adds per second.")
@click.option("--seconds", default=20, show_default=True)
def main(streams: int, slow: int, rate: int, seconds: int) -> None:
    """
    Measure the cost of many open event streams.

    Needs redis-server in PATH, and starts it on a free port.
    """
    with TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        try:
            uvloop.run(_measure(server.url, streams, slow, rate, seconds))
        finally:
            server.stop()


async def _measure(url: str, streams: int, slow: int, rate: int, seconds: int) -> None:
    async with started(url) as server, kue.Kue(url) as q:
        alone = server.memory
        clients = await _open(server.port, streams)
        slow_clients = await _open(server.port, slow)
        for slow_client in slow_clients:
            slow_client.stop_reading()
        subscriptions = await _subscriptions(url)
        opened, cpu = server.memory, server.cpu_seconds
        added, took = await _add(q, rate, seconds)
        late = await _wait_for_events(clients, added)
        cpu = server.cpu_seconds - cpu
        full = server.memory
        for slow_client in slow_clients:
            slow_client.resume_reading()
        await _wait_for_events(slow_clients, added)
        received = sum(client.received for client in clients)
        missed = sum(client.missed for client in clients)
        reported = sum(slow_client.missed for slow_client in slow_clients)
        got = sum(slow_client.received for slow_client in slow_clients)
        rows = {
            "streams": f"{streams:,} and {slow:,} that do not read",
            "subscriptions at the store": f"{subscriptions}",
            "adds per second": f"{added / took:,.0f}",
            "events delivered": f"{received:,} of {added * streams:,}",
            "events reported as lagged": f"{missed:,}",
            "streams that lagged": f"{sum(c.missed > 0 for c in clients):,}",
            "last event after the last add, s": f"{late:.2f}",
            "slow ones received, and missed": f"{got:,} and {reported:,}"
            f" of {added * slow:,}",
            "server's share of a core, %": f"{cpu / (took + late) * 100:.0f}",
            "server's memory alone, MB": f"{alone / MEGABYTE:.1f}",
            "with the streams open, MB": f"{opened / MEGABYTE:.1f}",
            "after the last event, MB": f"{full / MEGABYTE:.1f}",
        }
    for what, value in rows.items():
        print(f"{what:34}{value}")


async def _subscriptions(url: str) -> int:
    """Return how many connections to Redis have a subscription."""
    async with Redis.from_url(url) as redis:
        return sum(int(client["ssub"]) > 0 for client in await redis.client_list())


async def _open(port: int, streams: int) -> list[Stream]:
    """Open the streams; return once all are connected."""
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


async def _wait_for_events(clients: list[Stream], added: int) -> float:
    """Return after how many seconds all events were received or reported missed."""
    began = time.monotonic()
    while any(client.received + client.missed < added for client in clients):
        if time.monotonic() - began > PATIENCE_SECONDS:
            break
        await asyncio.sleep(0.01)
    return time.monotonic() - began


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.streams")
