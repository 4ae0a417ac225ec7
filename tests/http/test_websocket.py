"""Events over a WebSocket, to a client that is not ours, over a real network."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from kue import Kue
from kue.http import create_app
from kue.http.auth import Role
from kue.http.auth.access import Anyone, GuardCallback, User
from kue.http.streaming.broadcast import EventBroadcast
from kue.http.streaming.client_buffer import BufferLimits
from tests.http.conftest import HOST, serving
from tests.support.jobs import claim_one
from tests.support.patience import PATIENCE_SECONDS


class Server:
    """A server of events."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._port = int(address.rpartition(":")[2])

    @asynccontextmanager
    async def line(
        self, *, origin: str | None = None, window: int | None = None, **query: str
    ) -> AsyncIterator[ClientConnection]:
        """Open a line; a small *window* makes it one that takes little."""
        link = socket.socket()
        if window is not None:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        link.connect((HOST, self._port))
        async with connect(
            f"ws://{HOST}:{self._port}/api/v1/events/ws?{urlencode(query)}",
            sock=link,
            # Compared with the host, whatever the client itself would say.
            additional_headers={} if origin is None else {"Origin": origin},
            compression=None,
            max_queue=None if window is None else 1,
            proxy=None,
        ) as line:
            yield line


async def told(line: ClientConnection) -> dict[str, Any]:
    """Return what is said next."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        said: dict[str, Any] = json.loads(await line.recv())
    return said


async def up(line: ClientConnection) -> str:
    """Hear that the store is up; return from which number on all is heard."""
    said = await told(line)
    assert (said["kind"], said["detail"]) == ("store", {"state": "up"})
    place: str = said["id"]
    return place


@asynccontextmanager
async def server_of(
    q: Kue, bounds: BufferLimits | None = None, guard: GuardCallback | None = None
) -> AsyncIterator[Server]:
    live = EventBroadcast(q, bounds)
    async with serving(create_app(q, live=live, guard=guard or Anyone())) as address:
        try:
            yield Server(address)
        finally:
            await live.close()


@pytest.fixture
async def server(q: Kue) -> AsyncIterator[Server]:
    async with server_of(q) as server:
        yield server


async def test_what_happens_is_told(server: Server, q: Kue) -> None:
    async with server.line(types="email", origin=server.address) as line:
        await up(line)
        await q.enqueue("report")
        job = await q.enqueue("email", {"to": "a secret"})

        said = await told(line)

    assert (said["kind"], said["job_id"], said["type"]) == ("enqueue", job.id, "email")
    assert "secret" not in json.dumps(said)


async def test_coming_back_misses_nothing_and_repeats_nothing(
    server: Server, q: Kue
) -> None:
    async with server.line() as line:
        await up(line)
        jobs = [job.id for job in await q.enqueue_many("email", range(20))]
        heard = [await told(line) for _ in range(5)]
    jobs += [job.id for job in await q.enqueue_many("email", range(20))]

    async with server.line(last_event_id=heard[-1]["id"]) as line:
        await up(line)
        jobs.append((await q.enqueue("email")).id)
        heard += [await told(line) for _ in range(36)]

    assert [one["job_id"] for one in heard] == jobs


async def test_a_page_of_another_origin_is_closed_with_1008(server: Server) -> None:
    async with server.line(origin="http://elsewhere.example") as line:
        with pytest.raises(ConnectionClosed) as closed:
            await told(line)

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008
    assert closed.value.rcvd.reason == "the request is from a page of another origin"


async def test_whoever_may_no_longer_listen_is_told_with_1008(q: Kue) -> None:
    users = [User("ann", Role.VIEWER)]
    guard: GuardCallback = lambda connection: users[-1] if users else None  # noqa: E731
    async with (
        server_of(q, BufferLimits(recheck=0.01), guard) as server,
        server.line() as line,
    ):
        await up(line)
        users.clear()
        with pytest.raises(ConnectionClosed) as closed:
            await told(line)

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008
    assert closed.value.rcvd.reason == "you no longer have access"


async def test_a_reader_that_is_slow_is_told_what_it_missed(q: Kue) -> None:
    """Enough is said for whatever the two ends of a line may hold, and more."""
    count, ballast = 400, "x" * 30_000
    job = await q.enqueue("email")
    await claim_one(q.store, now=await q.now())
    async with (
        server_of(q, BufferLimits(buffer=20, pause=0)) as server,
        server.line(window=4096) as slow,
        server.line() as quick,
    ):
        await up(slow)
        await up(quick)
        for number in range(count):
            await job.progress(number, count, ballast)
            assert (await told(quick))["id"].endswith(f"-{number + 1}")

        numbers: list[int] = []
        missed = 0
        while not numbers or numbers[-1] != count:
            said = await told(slow)
            if said["kind"] == "lagged":
                missed += said["detail"]["missed"]
            else:
                numbers.append(int(said["id"].partition("-")[2]))

    assert missed > 0
    assert len(numbers) + missed == count
    assert numbers == sorted(set(numbers))
