"""A worker that stands by gets each job once, whatever becomes of the answer."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from kue import Kue
from kue.model.errors import StoreUnavailable
from kue.model.job import Job, State
from kue.store.contract import Store
from kue.store.values import Claim, ClaimRequest
from kue.worker.active_job import ActiveJob
from tests.support.jobs import add_one, claim, count_of
from tests.support.patience import PATIENCE_SECONDS
from tests.support.proxy import Fate, Proxy
from tests.support.servers import RedisServer

CLAIM = Claim("watch", 1)


@pytest.fixture
async def store(proxied: Store) -> Store:
    # The script is loaded: the next call of it is a fault's first chance.
    await claim(proxied, limit=0, worker="w0", now=None)
    return proxied


async def stand_by(store: Store) -> list[Job]:
    claimed = await store.stand_by(
        ClaimRequest(["email"], 5, worker="w1", claim=CLAIM, lease=60_000), timeout=0.5
    )
    return claimed.jobs


async def void(store: Store) -> list[Job]:
    claimed = await store.claim(
        ClaimRequest(["email"], 0, worker="w1", claim=CLAIM, lease=60_000)
    )
    return claimed.jobs


@pytest.mark.parametrize("fate", [Fate.CUT_AFTER, Fate.MUTE])
async def test_jobs_whose_answer_is_lost_are_returned_when_asked_for(
    store: Store, direct: Store, proxy: Proxy, fate: Fate
) -> None:
    job_id = await add_one(direct, now=None)
    proxy.plan(fate)

    with pytest.raises(StoreUnavailable):
        await stand_by(store)

    assert proxy.struck[fate] == 1
    assert [job.id for job in await void(store)] == [job_id]
    assert await count_of(direct) == {State.ACTIVE: 1}


@pytest.mark.parametrize("fate", [Fate.CUT_BEFORE, Fate.HOLD])
async def test_a_call_that_was_cut_off_takes_nothing_however_late_it_comes(
    store: Store, direct: Store, proxy: Proxy, fate: Fate
) -> None:
    await add_one(direct, now=None)
    proxy.plan(fate)

    with pytest.raises(StoreUnavailable):
        await stand_by(store)
    assert await void(store) == []
    if fate is Fate.HOLD:
        await proxy.release()

    assert proxy.struck[fate] == 1
    assert await count_of(direct) == {State.WAITING: 1}


async def test_scripts_that_were_flushed_are_loaded_again(
    store: Store, direct: Store, redis_server: RedisServer
) -> None:
    job_id = await add_one(direct, now=None)
    with redis_server.client() as client:
        client.script_flush()

    assert [job.id for job in await stand_by(store)] == [job_id]


async def test_a_worker_that_stands_by_in_trouble_runs_each_job_once(
    proxy: Proxy, redis_server: RedisServer, prefix: str, quick: None
) -> None:
    ran: list[int] = []
    producer = Kue(redis_server.url, prefix=prefix)
    async with producer, Kue(proxy.url, prefix=prefix, budget="20s") as q:

        @q.process("email", 5)
        async def handler(job: ActiveJob) -> None:
            ran.append(job.id)

        async with q.work():
            chances = {Fate.CUT_BEFORE: 0.1, Fate.CUT_AFTER: 0.2, Fate.HOLD: 0.05}
            proxy.draw(Random(5), chances)
            handles = []
            for _ in range(60):
                # One at a time, so that each finds a worker that stands by.
                handle = await producer.enqueue("email")
                await handle.result(timeout=PATIENCE_SECONDS)
                handles.append(handle)
                await asyncio.sleep(0)
            proxy.heal()

    assert sum(proxy.struck[fate] for fate in chances) > 20
    assert sorted(ran) == [handle.id for handle in handles]
