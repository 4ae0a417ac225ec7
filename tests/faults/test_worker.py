"""A worker and a producer in trouble with their Redis: all runs, once, by itself."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from random import Random
from typing import Any

import pytest

from kue import Kue
from kue.model.job import State
from kue.store.contract import Store
from kue.worker.active_job import ActiveJob
from tests.faults.conftest import NewServer, NewStore, assert_sound
from tests.support.jobs import add_many, count_of, get_many, outcomes
from tests.support.patience import PATIENCE_SECONDS
from tests.support.proxy import Fate, Proxy
from tests.support.servers import RedisServer

TYPE = "email"
#: What was acknowledged survives a crash of the process.
AOF = {"appendonly": "yes", "appendfsync": "no"}


class Crew:
    """A queue with a handler that counts its runs."""

    def __init__(self, url: str, prefix: str, **options: Any) -> None:
        given = {"lease": "60s", "budget": "1s", **options}
        self.queue = Kue(url, prefix=prefix, **given)
        self.runs: Counter[int] = Counter()
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.queue.process(TYPE, 10, self._handle)

    async def _handle(self, job: ActiveJob) -> int:
        self.runs[job.id] += 1
        self.started.set()
        await self.go_on.wait()
        return job.id

    async def has_run(self, ids: list[int], *, within: float = 50) -> None:
        """Return once each of *ids* has run."""
        async with asyncio.timeout(within):
            while not self.runs.keys() >= set(ids):
                self.started.clear()
                await self.started.wait()


@pytest.fixture
async def crew(proxy: Proxy, prefix: str) -> AsyncIterator[Crew]:
    crew = Crew(proxy.url, prefix)
    yield crew
    proxy.heal()
    await crew.queue.close()


async def fill(store: Store, count: int) -> list[int]:
    return await add_many(store, count, TYPE, now=None)


async def assert_all_complete(store: Store, ids: list[int]) -> None:
    assert await count_of(store, TYPE) == {State.COMPLETE: len(ids)}
    for job in await get_many(store, ids):
        assert (outcomes(job), job.result) == (["complete"], job.id)


@pytest.mark.parametrize("seed", range(3))
async def test_a_worker_in_random_trouble_runs_each_job_once(
    crew: Crew, direct: Store, proxy: Proxy, quick: None, seed: int
) -> None:
    ids = await fill(direct, 300)
    proxy.draw(
        Random(seed), {Fate.CUT_BEFORE: 0.1, Fate.CUT_AFTER: 0.2, Fate.MUTE: 0.02}
    )

    async with crew.queue.work():
        await crew.has_run(ids)

    assert proxy.struck[Fate.CUT_AFTER] > 0
    assert crew.runs == Counter(ids)
    await assert_all_complete(direct, ids)


@pytest.mark.parametrize("seed", range(3))
async def test_enqueues_in_random_trouble_add_each_job_once(
    direct: Store, proxy: Proxy, quick: None, prefix: str, seed: int
) -> None:
    proxy.draw(
        Random(seed), {Fate.CUT_BEFORE: 0.1, Fate.CUT_AFTER: 0.2, Fate.MUTE: 0.02}
    )
    handles = []
    async with Kue(proxy.url, prefix=prefix, budget="20s") as queue:
        for _ in range(20):
            handles += await asyncio.gather(
                *(queue.enqueue(TYPE, {"i": number}) for number in range(10))
            )
        handles += await queue.enqueue_many(TYPE, [{"i": i} for i in range(1200)])

    ids = [handle.id for handle in handles]
    assert proxy.struck[Fate.CUT_AFTER] > 0
    assert len(set(ids)) == len(ids) == 1400
    assert await count_of(direct, TYPE) == {State.WAITING: 1400}


async def test_a_sleeping_worker_that_lost_its_connection_receives_new_jobs(
    crew: Crew, direct: Store, redis_server: RedisServer
) -> None:
    """The commonest complaint about queues: alive, connected, and deaf."""
    async with crew.queue.work():
        for _ in range(5):
            [job_id] = await fill(direct, 1)
            await crew.has_run([job_id])
            with closing(redis_server.client()) as client:
                client.client_kill_filter(_type="normal", skipme=True)

    await assert_sound(direct)


async def test_a_worker_whose_network_was_mute_receives_new_jobs(
    crew: Crew, direct: Store, proxy: Proxy, quick: None
) -> None:
    async with crew.queue.work():
        [first] = await fill(direct, 1)
        await crew.has_run([first])

        proxy.swallow()
        [second] = await fill(direct, 1)
        # The fault has a length: all that the worker sends then is lost.
        await asyncio.sleep(1)
        proxy.heal()
        proxy.cut()

        await crew.has_run([second])


async def test_a_worker_that_starts_before_its_redis_waits_for_it(
    crew: Crew, direct: Store, proxy: Proxy
) -> None:
    ids = await fill(direct, 10)
    proxy.refuse()
    async with crew.queue.work():
        # Long enough for it to have tried, and for another who gave up to be gone.
        await asyncio.sleep(0.3)
        assert crew.runs == {}

        await proxy.accept()
        await crew.has_run(ids)

    await assert_all_complete(direct, ids)


async def test_a_worker_that_is_stopped_while_its_redis_is_away_stops(
    direct: Store, proxy: Proxy, prefix: str
) -> None:
    """What it could not write down in the time of a lease, the store takes back."""
    crew = Crew(proxy.url, prefix, lease="2s")
    ids = await fill(direct, 3)
    async with asyncio.timeout(PATIENCE_SECONDS):
        async with crew.queue.work(grace=1):
            await crew.has_run(ids)
            proxy.refuse()
            proxy.cut()

    await proxy.accept()
    await crew.queue.close()


async def test_a_redis_killed_under_a_worker_loses_and_repeats_nothing(
    new_server: NewServer, new_store: NewStore, prefix: str
) -> None:
    server = new_server(**AOF)
    store = new_store(server.url)
    crew = Crew(server.url, prefix)
    ids: list[int] = []

    async with crew.queue, crew.queue.work():
        for _ in range(3):
            handles = await crew.queue.enqueue_many(TYPE, range(700))
            ids += [handle.id for handle in handles]
            server.kill()
            await asyncio.to_thread(server.restart)
            await crew.has_run(ids)

    assert crew.runs == Counter(ids)
    await assert_all_complete(store, ids)
    await assert_sound(store)


async def test_a_frozen_redis_takes_no_job_from_a_live_worker(
    new_server: NewServer, new_store: NewStore, prefix: str
) -> None:
    """Away for longer than the lease; workers that live get time to renew."""
    server = new_server()
    store = new_store(server.url, budget="20s")
    # The grace that it gets is half of it, and the machine may be busy.
    crew = Crew(server.url, prefix, lease="6s")
    crew.go_on.clear()

    async with crew.queue, crew.queue.work():
        ids = await fill(store, 5)
        await crew.has_run(ids)
        os.kill(server.pid, signal.SIGSTOP)
        # Another worker's maintenance is the first thing that Redis will see.
        tending = asyncio.create_task(store.tend(lease=6000))
        # The fault has a length: longer than the lease and than the gap that
        # maintenance takes for an outage.
        await asyncio.sleep(6.5)
        os.kill(server.pid, signal.SIGCONT)
        await tending
        # After the grace, maintenance would take back the runs, if it did.
        await asyncio.sleep(3.5)
        await store.tend(lease=6000)
        crew.go_on.set()

    assert crew.runs == Counter(ids)
    await assert_all_complete(store, ids)
    await assert_sound(store)


async def test_jobs_run_to_their_end_in_a_full_redis(
    new_server: NewServer, new_store: NewStore, prefix: str
) -> None:
    server = new_server()
    store = new_store(server.url)
    ids = await fill(store, 200)
    with closing(server.client()) as client:
        client.config_set("maxmemory", 1)
    crew = Crew(server.url, prefix)

    async with crew.queue, crew.queue.work():
        await crew.has_run(ids)

    assert crew.runs == Counter(ids)
    await assert_all_complete(store, ids)
    await assert_sound(store)


async def test_a_worker_survives_an_emptied_redis(
    new_server: NewServer, new_store: NewStore, prefix: str
) -> None:
    server = new_server()
    store = new_store(server.url)
    crew = Crew(server.url, prefix)
    crew.go_on.clear()

    async with crew.queue, crew.queue.work():
        await crew.has_run(await fill(store, 5))
        with closing(server.client()) as client:
            client.flushall()
        crew.go_on.set()
        crew.runs.clear()
        ids = await fill(store, 5)
        await crew.has_run(ids)

    await assert_all_complete(store, ids)
    await assert_sound(store)


@pytest.mark.damages
async def test_a_worker_goes_on_past_jobs_that_are_garbage(
    crew: Crew, direct: Store, redis_server: RedisServer, prefix: str
) -> None:
    ids = await fill(direct, 20)
    with closing(redis_server.client()) as client:
        client.delete(f"{{{prefix}}}:job:{ids[3]}")
        client.set(f"{{{prefix}}}:job:{ids[5]}", f"0\t1\t{TYPE}\nnot json")
        client.set(f"{{{prefix}}}:job:{ids[7]}", os.urandom(50))

    async with crew.queue.work():
        await crew.has_run([i for i in ids if i not in (ids[3], ids[5], ids[7])])

    counts = await count_of(direct, TYPE)
    assert counts[State.COMPLETE] == 17
    assert counts[State.FAILED] >= 1
    assert State.ACTIVE not in counts
