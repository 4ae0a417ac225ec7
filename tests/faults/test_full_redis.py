"""A Redis without memory takes no new jobs, and finishes those it has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from kue.model.draft import draft
from kue.model.errors import StoreFull
from kue.model.job import Completed, State
from kue.model.settings import Keep
from kue.store.contract import Store
from kue.store.values import MAX_BATCH, Outcome, RenewRequest, Result
from tests.faults.load import fill_up
from tests.faults.scene import VERBS, build
from tests.support.jobs import SECOND, T0, add, add_many, claim, count_of
from tests.support.schedules import every
from tests.support.servers import RedisServer
from tests.support.upkeep import KEEP_ALL

#: What is shed; all else must go on.
ADDS = {"add", "add plain", "add reserved", "reserve", "fire"}


@pytest.fixture(scope="module")
def full_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("full"))
    yield server
    server.stop()


@pytest.fixture
def server(full_server: RedisServer) -> RedisServer:
    """A Redis that has room, until a test takes it."""
    with closing(full_server.client()) as client:
        client.flushall()
        client.config_set("maxmemory", 0)
    return full_server


@pytest.fixture
def url(server: RedisServer) -> str:
    return server.url


def make_full(server: RedisServer) -> None:
    """Let Redis have less memory than it can ever get down to."""
    server.send("CONFIG", "SET", "maxmemory", 1)


def set_room(server: RedisServer, room: int) -> None:
    """Let Redis have *room* bytes more than it uses."""
    with closing(server.client()) as client:
        used = client.info("memory")["used_memory"]
        client.config_set("maxmemory", used + room)


async def test_a_full_redis_refuses_new_jobs_and_says_why(
    server: RedisServer, store: Store
) -> None:
    await add_many(store, 10)
    make_full(server)

    with pytest.raises(StoreFull, match=r"maxmemory.*raise maxmemory or add again"):
        await add(store, [draft("email")])

    assert await count_of(store) == {State.WAITING: 10}


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ADDS])
async def test_everything_but_adding_goes_on_in_a_full_redis(
    server: RedisServer, store: Store, verb: str
) -> None:
    scene = await build(store)
    make_full(server)
    # The text of a script must get in, too.
    server.send("SCRIPT", "FLUSH")

    await VERBS[verb](store, scene)


async def test_schedules_add_no_jobs_in_a_full_redis_and_stay_due(
    server: RedisServer, store: Store
) -> None:
    schedule = every("nightly", "1h", draft("report"), first_at=T0)
    await store.schedule(schedule)
    make_full(server)

    assert (await store.tend(now=T0)).fired == 0
    with pytest.raises(StoreFull, match="maxmemory"):
        await store.fire("nightly", now=T0)
    assert await store.schedules() == [schedule]

    server.send("CONFIG", "SET", "maxmemory", 0)
    assert (await store.tend(now=T0 + SECOND)).fired == 1
    assert await count_of(store, "report") == {State.WAITING: 1}


async def test_leases_are_kept_in_a_full_redis(
    server: RedisServer, store: Store
) -> None:
    await add_many(store, 5)
    running = await claim(store, limit=5, lease=10 * SECOND)
    make_full(server)

    for now in range(T0, T0 + 60 * SECOND, 3 * SECOND):
        renewed = await store.renew(
            RenewRequest("w1", lease=10 * SECOND, runs=running), now=now
        )
        tended = await store.tend(now=now, keep=KEEP_ALL)
        assert (renewed.lost, tended.rescued) == ([], 0)


async def test_adds_work_again_once_jobs_were_run_and_pruned(
    server: RedisServer, store: Store
) -> None:
    await add_many(store, 10)
    set_room(server, 1_000_000)
    count = 10 + await fill_up(store, size=200, batch=MAX_BATCH)

    while running := await claim(store, limit=MAX_BATCH):
        words = await store.settle(
            [Outcome(job, Completed(None)) for job in running], now=T0
        )
        assert set(words) == {Result.DONE}
        await store.tend(now=T0, keep=Keep(complete_count=0))

    assert count > MAX_BATCH
    await add(store, [draft("email")] * MAX_BATCH)
    assert (await count_of(store))[State.WAITING] == MAX_BATCH


async def test_adds_work_again_once_there_is_more_memory(
    server: RedisServer, store: Store
) -> None:
    set_room(server, 500_000)
    count = await fill_up(store, size=200, batch=MAX_BATCH)

    set_room(server, 10_000_000)

    await add(store, [draft("email")] * MAX_BATCH)
    assert await count_of(store) == {State.WAITING: count + MAX_BATCH}


async def test_an_add_that_was_refused_can_be_said_again(
    server: RedisServer, store: Store
) -> None:
    await store.open()
    make_full(server)
    drafts = [draft("email")] * 3
    with pytest.raises(StoreFull):
        await store.add(drafts, producer="p", seq=1)

    set_room(server, 10_000_000)
    added = await store.add(drafts, producer="p", seq=1)

    assert [one.new for one in added] == [True] * 3
    assert await count_of(store) == {State.WAITING: 3}
