"""Queues and workers as verticles of a runtime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kue import ActiveJob, ConfigError, Kue, State, StoreUnavailable
from kue.bus import EventBus, RequestFailed
from kue.runtime import Runtime
from kue.vertx import (
    Addresses,
    JobServiceProxy,
    KueVerticle,
    KueWorker,
    authorised,
    on,
    on_job,
    verticles,
)
from tests.bus.hearing import Heard
from tests.support.patience import PATIENCE_SECONDS, until
from tests.vertx.workers import Doubler

BY_NAME = "kue.vertx:KueVerticle"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/kue.db"


@pytest.fixture
async def file_q(url: str) -> AsyncIterator[Kue]:
    """The queue that verticles find by its URL."""
    async with Kue(url) as q:
        yield q


@pytest.fixture(params=["here", "threads"])
async def runtime(
    request: pytest.FixtureRequest, bus: EventBus
) -> AsyncIterator[Runtime]:
    loops = 0 if request.param == "here" else 2
    async with Runtime(loops=loops, bus=bus) as runtime:
        yield runtime


async def test_a_queue_is_put_on_the_bus_by_its_url(
    runtime: Runtime, bus: EventBus, url: str, file_q: Kue
) -> None:
    heard = Heard()
    on(bus, "job_enqueue", heard)

    await runtime.deploy(BY_NAME, config={"url": url})
    job = await file_q.enqueue("email")

    assert (await heard.next())["job"]["id"] == job.id
    assert await JobServiceProxy(bus).exists_job(job.id) is True


async def test_what_was_deployed_goes_when_it_is_undeployed(
    runtime: Runtime, bus: EventBus, url: str
) -> None:
    deployed = await runtime.deploy(BY_NAME, config={"url": url})
    await JobServiceProxy(bus).get_all_types()

    await runtime.undeploy(deployed)

    with pytest.raises(RequestFailed, match="No handlers"):
        await JobServiceProxy(bus).get_all_types()
    assert bus.consumers() == {}


async def test_a_queue_may_be_given(q: Kue, bus: EventBus) -> None:
    """It is whoever made it that closes it."""
    async with Runtime(bus=bus) as runtime:
        await runtime.deploy(KueVerticle(q))
        job = await q.enqueue("email")
        assert await JobServiceProxy(bus).exists_job(job.id) is True

    assert await q.exists(job.id) is True


async def test_where_it_is_and_what_it_tells_is_configured(
    runtime: Runtime, bus: EventBus, url: str, file_q: Kue
) -> None:
    config = {"url": url, "root": "shop", "events": False, "debug": True}

    await runtime.deploy(BY_NAME, config=config)

    shop = JobServiceProxy(bus, Addresses("shop").service)
    assert await shop.get_all_types() == []
    with pytest.raises(ValueError, match="state 'LOST'") as failed:
        await shop.card("LOST")
    cause = failed.value.__cause__
    assert isinstance(cause, RequestFailed)
    assert cause.debug["causeStackTrace"]


async def test_a_queue_may_be_on_the_bus_without_its_events(
    runtime: Runtime, bus: EventBus, url: str, file_q: Kue
) -> None:
    heard, unheard = Heard(), Heard()
    on(bus, "job_enqueue", heard)
    on(bus, "job_enqueue", unheard, Addresses("shop"))

    quiet = {"url": url, "root": "shop", "events": False}
    await runtime.deploy(BY_NAME, config=quiet)
    await runtime.deploy(BY_NAME, config={"url": url})
    for count in (1, 2):
        await file_q.enqueue("email")
        await heard.hears(count)

    assert unheard.told == []


class Guarded(KueVerticle):
    interceptors = (authorised(lambda token: token == "sesame"),)


async def test_a_subclass_says_who_may_ask(
    runtime: Runtime, bus: EventBus, url: str
) -> None:
    await runtime.deploy(Guarded, config={"url": url})

    assert await JobServiceProxy(bus, token="sesame").get_all_types() == []
    with pytest.raises(RequestFailed, match="Unauthorized"):
        await JobServiceProxy(bus).get_all_types()


async def test_of_several_for_one_queue_one_tells_events(
    bus: EventBus, url: str, file_q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And another does when that one has ended."""
    monkeypatch.setattr(verticles, "LOCK_TIMEOUT", "10ms")
    heard = Heard()
    on(bus, "job_enqueue", heard)
    async with Runtime(bus=bus) as runtime:
        first = await runtime.deploy(BY_NAME, config={"url": url})
        await runtime.deploy(BY_NAME, config={"url": url}, instances=2)
        for _ in range(3):
            await file_q.enqueue("email")
        await heard.hears(3)

        await runtime.undeploy(first)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(heard.told) < 5:
                await file_q.enqueue("email")

    ids = [told["job"]["id"] for told in heard.told]
    assert ids[:3] == [1, 2, 3]
    assert len(ids) == len(set(ids))


class Losing:
    """Shared data of one lock, which can be lost as one that is kept elsewhere can."""

    def __init__(self) -> None:
        self.taken = 0
        self.is_held = False
        self.fence = 0

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def lock(self, name: str, *, timeout: object) -> Losing:
        self.taken += 1
        self.is_held = True
        return self

    async def release(self) -> None: ...


async def test_who_lost_the_lock_tells_no_more_until_it_has_it_again(
    bus: EventBus, q: Kue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verticles, "CHECK_SECONDS", 0.01)
    shared: Any = Losing()
    heard = Heard()
    on(bus, "job_enqueue", heard)
    async with Runtime(bus=bus, shared=shared) as runtime:
        await runtime.deploy(KueVerticle(q))
        await q.enqueue("email")
        await heard.hears(1)

        shared.is_held = False
        await until(lambda: shared.taken == 2)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(heard.told) < 4:
                await q.enqueue("email")
                await asyncio.sleep(0)

    ids = [told["job"]["id"] for told in heard.told]
    assert len(ids) == len(set(ids))


async def test_a_runtime_without_a_bus_is_told_to_have_one(url: str) -> None:
    async with Runtime() as runtime:
        with pytest.raises(ConfigError, match="KueVerticle needs an event bus"):
            await runtime.deploy(BY_NAME, config={"url": url})

        # Workers need none.
        await runtime.deploy(Doubler, config={"url": url})


async def test_a_store_that_is_away_fails_the_deployment(
    bus: EventBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUE_BUDGET", "10ms")
    async with Runtime(bus=bus) as runtime:
        for verticle in (BY_NAME, "tests.vertx.workers:Doubler"):
            with pytest.raises(StoreUnavailable):
                await runtime.deploy(verticle, config={"url": "redis://127.0.0.1:1"})

        assert runtime.deployments == ()
    assert bus.consumers() == {}


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"urk": "x"}, "config of KueVerticle: Object contains unknown field `urk`"),
        ({"url": 7}, r"config of KueVerticle: Expected `str \| null`, got `int`"),
        ({"url": "memory://", "prefix": ""}, "prefix must have 1 to 200 bytes"),
    ],
)
async def test_a_config_that_makes_no_sense_is_refused(
    bus: EventBus, config: dict[str, Any], problem: str
) -> None:
    async with Runtime(bus=bus) as runtime:
        with pytest.raises(ConfigError, match=problem):
            await runtime.deploy(BY_NAME, config=config)


@pytest.mark.parametrize("verticle", [KueVerticle, Doubler])
async def test_neither_runs_on_a_thread_of_a_pool(
    bus: EventBus, url: str, verticle: type[KueVerticle] | type[Doubler]
) -> None:
    async with Runtime(bus=bus) as runtime:
        with pytest.raises(ConfigError, match="deploy it without worker=True"):
            await runtime.deploy(verticle, config={"url": url}, worker=True)


# -- workers -------------------------------------------------------------------


async def test_a_worker_runs_jobs_while_it_is_deployed(
    runtime: Runtime, url: str, file_q: Kue
) -> None:
    deployed = await runtime.deploy(
        "tests.vertx.workers:Doubler", config={"url": url}, instances=2
    )
    jobs = await file_q.enqueue_many("double", range(10))

    assert [await job.result(20) for job in jobs] == [2 * n for n in range(10)]
    await runtime.undeploy(deployed)
    assert not [worker for worker in await file_q.workers() if worker.alive]


async def test_a_worker_that_is_undeployed_hands_back_what_it_has(
    q: Kue, bus: EventBus
) -> None:
    """After its grace, and without spending an attempt."""
    begun = asyncio.Event()

    async def wait(job: ActiveJob) -> None:
        begun.set()
        await asyncio.Event().wait()

    q.process("slow", wait)
    async with Runtime(bus=bus) as runtime:
        await runtime.deploy(KueWorker(q), config={"grace": 0.01})
        handle = await q.enqueue("slow")
        await begun.wait()

    job = await handle.refresh()
    assert (job.state, job.attempts) == (State.WAITING, 0)


async def test_a_worker_waits_for_what_it_has_in_hand(q: Kue) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(job: ActiveJob) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    q.process("slow", wait)
    async with Runtime() as runtime:
        deployed = await runtime.deploy(KueWorker(q))
        handle = await q.enqueue("slow")
        await begun.wait()
        stopping = asyncio.create_task(runtime.undeploy(deployed))
        await asyncio.sleep(0)
        go_on.set()
        await stopping

    assert await handle.result(20) == "done"


async def test_of_two_workers_of_one_queue_one_may_end(q: Kue) -> None:
    async def same(job: ActiveJob) -> object:
        return job.data

    q.process("same", same)
    async with Runtime() as runtime:
        first = await runtime.deploy(KueWorker(q))
        await runtime.deploy(KueWorker(q))
        await runtime.undeploy(first)

        assert await (await q.enqueue("same", 7)).result(20) == 7


async def test_a_worker_without_handlers_is_refused(q: Kue) -> None:
    async with Runtime() as runtime:
        with pytest.raises(ConfigError, match="there is nothing to work on"):
            await runtime.deploy(KueWorker(q))


async def test_a_worker_and_a_listener_meet_on_the_bus(
    runtime: Runtime, bus: EventBus, url: str, file_q: Kue
) -> None:
    await runtime.deploy(BY_NAME, config={"url": url})
    job = await (await file_q.enqueue("double", 21)).refresh()
    heard = Heard()
    on_job(bus, "complete", job, heard)

    await runtime.deploy(Doubler, config={"url": url})

    assert (await heard.next())["result"] == 42
