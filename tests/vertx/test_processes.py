"""A queue that is on the bus of another process, on Redis."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from kue import Kue
from kue.bus import EventBus, FailureKind, RequestFailed
from kue.bus.redis import RedisCluster
from kue.model.job import Completed
from kue.vertx import JobServiceProxy, on, on_job
from kue.vertx.job_json import show
from tests.bus.hearing import Heard
from tests.bus.nodes import BEAT, LEASE
from tests.faults.processes import Process
from tests.support.patience import PATIENCE_SECONDS, until
from tests.support.servers import RedisServer
from tests.vertx.hearing import add, finish

#: Longer than a test waits for anything.
TIMEOUT = 300.0


@pytest.fixture
def prefix() -> str:
    return f"service-{uuid.uuid4().hex[:12]}"


@pytest.fixture
async def q(redis_server: RedisServer, prefix: str) -> AsyncIterator[Kue]:
    async with Kue(redis_server.url, prefix=prefix) as q:
        yield q


@pytest.fixture
async def bus(redis_server: RedisServer, prefix: str) -> AsyncIterator[EventBus]:
    manager = RedisCluster(redis_server.url, prefix=prefix, heartbeat=BEAT, lease=LEASE)
    async with EventBus(manager) as bus:
        yield bus


@pytest.fixture
async def serving(redis_server: RedisServer, prefix: str) -> AsyncIterator[Process]:
    async with server(redis_server.url, prefix) as process:
        yield process


def server(url: str, prefix: str) -> Process:
    """Return a process that puts the queue on the bus."""
    return Process("serve", url, prefix, "n", program="tests.vertx.program")


async def test_a_queue_is_asked_and_heard_from_another_process(
    serving: Process, bus: EventBus, q: Kue
) -> None:
    """One process has the queue on the bus, this one has a proxy and listeners."""
    proxy = JobServiceProxy(bus)
    job = await add(q, data={"to": "ann"})
    of_job, of_queue = Heard(), Heard()
    completing = on_job(bus, "complete", job, of_job)
    await completing.ready()
    await on(bus, "job_complete", of_queue).ready()

    assert await proxy.get_job(job.id) == show(job)
    await finish(q, job, Completed("sent"))

    told = await of_job.next()
    assert (told["id"], told["result"]) == (job.id, "sent")
    assert (await of_queue.next())["job"] == told
    assert await proxy.card("COMPLETE") == 1
    with pytest.raises(ValueError, match="state 'LOST' is unknown"):
        await proxy.card("LOST")
    await until(lambda: not completing.is_registered)


async def test_a_request_to_a_service_that_is_killed_fails_promptly(
    serving: Process, bus: EventBus, q: Kue
) -> None:
    proxy = JobServiceProxy(bus, timeout=TIMEOUT)
    await proxy.get_all_types()
    serving.freeze()
    asked = asyncio.create_task(proxy.get_all_types())
    await until(lambda: bus.waiting == 1)
    await bus.flush()

    serving.kill()

    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises(RequestFailed) as failed:
            await asked
        assert failed.value.kind in (FailureKind.ERROR, FailureKind.NO_HANDLERS)
        await until(lambda: bus.nodes == {bus.node})
        with pytest.raises(RequestFailed, match="No handlers"):
            await proxy.get_all_types()


async def test_of_two_processes_one_tells_events_until_it_is_killed(
    serving: Process, bus: EventBus, q: Kue
) -> None:
    """Then the other does, and nothing is told twice."""
    heard = Heard()
    await on(bus, "job_enqueue", heard).ready()

    async with server(q.settings.url, q.settings.prefix):
        first = await add(q)
        await heard.hears(1)
        serving.kill()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(heard.told) < 3:
                await add(q)
                # The other process is to notice; nothing here tells when.
                await asyncio.sleep(0.05)

    ids = [told["job"]["id"] for told in heard.told]
    assert ids[0] == first.id
    assert len(ids) == len(set(ids))
