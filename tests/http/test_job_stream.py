"""What jobs send, over the network: live, page by page, and after a lost connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest

from kue import JobHandle, Kue
from kue.http import create_app
from kue.http.auth.access import Anyone
from kue.http.streaming.broadcast import EventBroadcast
from kue.http.streaming.client_buffer import BufferLimits
from kue.model.job import Completed, Ending, Failed, Retried
from tests.client.test_stream import Producer
from tests.http.conftest import serving
from tests.http.test_events import Ear, Fickle, Server
from tests.support.jobs import OOPS
from tests.support.patience import until


@asynccontextmanager
async def server_of(
    q: Kue, *, guard: Any = None, bounds: BufferLimits | None = None
) -> AsyncIterator[Server]:
    app = create_app(q, guard=guard or Anyone(), hosts=["kue.example"])
    app.state.live = EventBroadcast(q, bounds)
    async with serving(app) as address:
        server = Server(address, app)
        try:
            yield server
        finally:
            await server.live.close()


@pytest.fixture
async def server(q: Kue) -> AsyncIterator[Server]:
    async with server_of(q) as server:
        yield server


@pytest.fixture
async def producer(q: Kue) -> Producer:
    return Producer(q, q.store)


def listen(
    server: Server, job: JobHandle[Any], last_id: str = "", **query: Any
) -> AbstractAsyncContextManager[Ear]:
    return server.ear(path=f"/api/v1/jobs/{job.id}/stream", last_id=last_id, **query)


async def test_chunks_are_sent_as_they_come_and_then_the_end(
    server: Server, producer: Producer
) -> None:
    job = await producer.add()
    await producer.start()
    await producer.send("early")
    async with listen(server, job) as ear:
        first = await ear.next()
        await producer.send({"live": True})
        second = await ear.next()
        await producer.end()
        last = await ear.next()
        await ear.end()

    assert (ear.status, ear.retry) == (200, "1000")
    assert ear.headers["content-type"].startswith("text/event-stream")
    assert first.told == {
        "id": first.id,
        "attempt": 1,
        "at": first.told["at"],
        "value": "early",
    }
    assert second.told["value"] == {"live": True}
    assert (last.event, last.id, last.told) == ("end", "end", {"state": "complete"})


async def test_a_client_that_reconnects_gets_what_followed(
    server: Server, producer: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    job = await producer.add()
    await producer.start()
    await producer.send("a", "b")
    async with listen(server, job) as ear:
        await ear.next()
        seen = (await ear.next()).id
    await producer.send("c")
    async with listen(server, job, seen) as ear:
        assert (await ear.next()).told["value"] == "c"
    async with listen(server, job, after=seen) as ear:
        assert (await ear.next()).told["value"] == "c"
    await producer.end()
    async with listen(server, job, "end") as ear:
        assert ear.status == 204
    await until(lambda: not server.live._others)
    assert [one for one in caplog.records if one.levelno >= logging.ERROR] == []


async def test_a_job_that_runs_again_restarts_the_stream(
    server: Server, producer: Producer
) -> None:
    job = await producer.add(attempts=2)
    await producer.start()
    await producer.send("old")
    async with listen(server, job) as ear:
        old = await ear.next()
        await producer.end(Retried(OOPS))
        await producer.start()
        await producer.send("new")
        restart, new = await ear.next(), await ear.next()
    async with listen(server, job, old.id) as ear:
        again = [await ear.next(), await ear.next()]
    await producer.end()

    assert (restart.event, new.told["value"]) == ("restart", "new")
    assert new.told["attempt"] == 2
    assert [one.event for one in again] == ["restart", ""]


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        (Completed(), {"state": "complete"}),
        (
            Failed(OOPS),
            {"state": "failed", "kind": "ValueError", "message": "oops"},
        ),
        (None, {"state": "cancelled", "message": "no"}),
    ],
)
async def test_the_end_says_how_the_job_ended(
    server: Server, producer: Producer, ending: Ending | None, told: dict[str, str]
) -> None:
    job = await producer.add()
    async with listen(server, job) as ear:
        if ending is None:
            await job.cancel("no")
        else:
            await producer.start()
            await producer.end(ending)
        assert (await ear.next()).told == told


async def test_a_job_that_is_removed_ends_the_stream(
    server: Server, producer: Producer
) -> None:
    job = await producer.add()
    async with listen(server, job) as ear:
        await producer.start()
        await producer.send("a")
        await ear.next()
        await job.remove(force=True)
        assert (await ear.next()).told == {"state": "removed"}


async def test_silence_is_broken_by_comments(q: Kue, producer: Producer) -> None:
    job = await producer.add()
    await producer.start()
    async with (
        server_of(q, bounds=BufferLimits(keep_alive=0.01)) as server,
        listen(server, job) as ear,
    ):
        reading = asyncio.create_task(ear.next())
        await until(lambda: ear.comments > 2)
        await producer.send("a")
        assert (await reading).told["value"] == "a"


async def test_streams_of_jobs_count_as_clients(q: Kue, producer: Producer) -> None:
    job = await producer.add()
    bounds = BufferLimits(clients=1, linger=0)
    async with server_of(q, bounds=bounds) as server:
        async with listen(server, job) as ear:
            assert ear.status == 200
            async with listen(server, job) as refused:
                assert refused.status == 503
        await until(lambda: not server.live.is_full)


async def test_a_stream_ends_with_the_server_and_with_the_access(
    q: Kue, producer: Producer
) -> None:
    job, guard = await producer.add(), Fickle()
    bounds = BufferLimits(recheck=0.01)
    async with (
        server_of(q, guard=guard, bounds=bounds) as server,
        listen(server, job) as ear,
    ):
        assert ear.status == 200
        guard.answer = None
        await ear.end()
    async with server_of(q) as server, listen(server, job) as ear:
        assert ear.status == 200
        await server.live.close()
        await ear.end()


async def test_chunks_are_shown_page_by_page(
    client: httpx.AsyncClient, producer: Producer
) -> None:
    job = await producer.add()
    await producer.start()
    await producer.send(*range(5))
    path = f"/jobs/{job.id}/chunks"

    first = (await client.get(f"{path}?limit=3")).json()
    rest = (await client.get(f"{path}?limit=3&after={first['next']}")).json()

    assert [one["value"] for one in first["chunks"]] == [0, 1, 2]
    assert [one["value"] for one in rest["chunks"]] == [3, 4]
    assert rest["next"] is None
    assert rest["chunks"][0].keys() == {"id", "attempt", "at", "value"}


@pytest.mark.parametrize("path", ["chunks", "stream"])
async def test_what_cannot_be_read_is_refused(
    client: httpx.AsyncClient, producer: Producer, path: str
) -> None:
    job = await producer.add()
    bad = await client.get(f"/jobs/{job.id}/{path}?after=x")
    gone = await client.get(f"/jobs/{job.id + 1}/{path}")

    assert (bad.status_code, bad.json()["field"]) == (400, "query.after")
    assert (gone.status_code, gone.json()["detail"]) == (404, "job 2 does not exist")


async def test_secrets_in_chunks_are_hidden(
    client: httpx.AsyncClient, server: Server, producer: Producer
) -> None:
    job = await producer.add()
    await producer.start()
    await producer.send({"token": "canary"})
    async with listen(server, job) as ear:
        told = (await ear.next()).told
    page = await client.get(f"/jobs/{job.id}/chunks")

    assert "canary" not in str(told)
    assert "canary" not in page.text
