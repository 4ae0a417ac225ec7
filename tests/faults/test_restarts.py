"""Redis forgets its scripts, drops its clients, dies and comes back: work goes on."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

import pytest
import redis

from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.values import GRACE_GAP_MS, Outcome, RenewRequest, Result
from tests.faults.conftest import NewServer, NewStore, assert_sound
from tests.faults.load import Load
from tests.support.jobs import (
    SECOND,
    T0,
    add_many,
    claim,
    count_of,
    end,
    get_many,
    outcomes,
)
from tests.support.patience import until
from tests.support.servers import RedisServer
from tests.support.upkeep import KEEP_ALL

#: What was acknowledged survives a crash of the process: it is written before the
#: answer and waits for no disk.  With "everysec" Redis may answer up to 2 s earlier.
AOF = {"appendonly": "yes", "appendfsync": "no"}


@pytest.fixture
def server(new_server: NewServer) -> RedisServer:
    """A Redis that keeps what it acknowledged."""
    return new_server(**AOF)


@pytest.fixture
def url(server: RedisServer) -> str:
    return server.url


@pytest.fixture
def store_options() -> dict[str, Any]:
    return {"budget": "2s"}


async def test_scripts_that_are_forgotten_are_sent_again(
    server: RedisServer, store: Store
) -> None:
    async with Load(store) as load:
        with closing(server.client()) as client:
            for _ in range(100):
                client.script_flush()
                await load.reach(10)

    # It is not a fault at all: nobody even had to wait.
    assert load.failures == 0


async def test_clients_that_are_thrown_out_come_back(
    server: RedisServer, store: Store
) -> None:
    async with Load(store) as load:
        with closing(server.client()) as client:
            for _ in range(40):
                client.client_kill_filter(_type="normal", skipme=True)
                await load.reach(20)


async def test_a_redis_that_is_killed_and_comes_back_loses_nothing(
    server: RedisServer, store: Store
) -> None:
    async with Load(store) as load:
        for _ in range(5):
            await load.reach(1500)
            server.kill()
            await asyncio.to_thread(server.restart)
        await load.reach(500)


async def test_a_redis_that_died_while_it_wrote_leaves_no_half_transaction(
    server: RedisServer, store: Store
) -> None:
    """It skips the half when it starts; the next start would apply it."""
    ids = await add_many(store, 20)
    running = await claim(store, limit=20)
    endings = [Outcome(job, Completed(None)) for job in running]
    await store.settle(endings, now=T0)
    server.kill()
    [log] = server.folder.glob("appendonlydir/*.incr.aof")
    written = log.read_bytes()
    # Within its last command.
    log.write_bytes(written[: written.rindex(b"EXEC") - 20])

    server.restart()
    assert await count_of(store) == {State.ACTIVE: 20}
    assert set(await store.settle(endings, now=T0)) == {Result.DONE}
    server.restart()

    assert [outcomes(job) for job in await get_many(store, ids)] == [["complete"]] * 20


async def test_a_redis_that_freezes_loses_nothing(
    server: RedisServer, store: Store
) -> None:
    async with Load(store) as load:
        for _ in range(3):
            await load.reach(500)
            with server.frozen():
                # The fault has a length: shorter and longer than the patience of one
                # call.
                await asyncio.sleep(0.5)


async def test_a_restart_slower_than_the_lease_takes_no_job_from_a_live_worker(
    server: RedisServer, store: Store
) -> None:
    await add_many(store, 20)
    running = await claim(store, limit=20, lease=10 * SECOND)
    await store.tend(now=T0 + SECOND, keep=KEEP_ALL)

    server.kill()
    await asyncio.to_thread(server.restart)
    back = T0 + 60 * SECOND
    tended = await store.tend(now=back, lease=10 * SECOND, keep=KEEP_ALL)
    renewed = await store.renew(RenewRequest("w1", runs=running), now=back + SECOND)
    later = await store.tend(now=back + 4 * SECOND, keep=KEEP_ALL)

    assert (tended.rescued, later.rescued) == (0, 0)
    assert renewed.lost == []
    words = [await end(store, job, Completed(), now=back) for job in running]
    assert set(words) == {Result.DONE}


async def test_a_worker_that_died_during_the_restart_loses_its_runs_after_the_grace(
    server: RedisServer, store: Store
) -> None:
    await add_many(store, 20)
    await claim(store, limit=20, lease=10 * SECOND)
    await store.tend(now=T0 + SECOND, keep=KEEP_ALL)

    await asyncio.to_thread(server.restart)
    back = T0 + 60 * SECOND
    rescued = 0
    for now in range(back, back + 10 * SECOND, GRACE_GAP_MS - SECOND):
        rescued += (await store.tend(now=now, keep=KEEP_ALL)).rescued

    assert rescued == 20
    assert await count_of(store) == {State.WAITING: 20}


async def test_a_store_that_was_emptied_under_the_workers_goes_on(
    server: RedisServer, store: Store
) -> None:
    await add_many(store, 5)
    running = await claim(store, limit=5)

    with closing(server.client()) as client:
        client.flushall()

    assert [await end(store, job, Completed()) for job in running] == [Result.GONE] * 5
    assert len(await add_many(store, 3)) == 3
    assert len(await claim(store, limit=5)) == 3
    assert await count_of(store) == {State.ACTIVE: 3}


async def test_a_redis_that_is_loading_is_waited_for(
    new_server: NewServer, new_store: NewStore
) -> None:
    """It answers LOADING until its file is read; big files take their time."""
    server = new_server(
        key_load_delay="2000", loading_process_events_interval_bytes="1024"
    )
    store = new_store(server.url, budget="20s")
    await add_many(store, 500)
    with closing(server.client()) as client:
        client.save()

    server.kill()
    restarting = asyncio.create_task(asyncio.to_thread(server.restart))
    await until(lambda: is_loading(server))
    counted = await count_of(store)
    await restarting

    assert counted == {State.WAITING: 500}
    await assert_sound(store)


def is_loading(server: RedisServer) -> bool:
    with closing(server.client()) as client:
        try:
            return bool(client.info("persistence")["loading"])
        except redis.ConnectionError:
            return False
