"""Garbage in one small value concerns one job; workers and its neighbours go on."""

from __future__ import annotations

import pytest
import redis

from kue.model.draft import draft
from kue.model.errors import StoreCorrupt
from kue.model.job import Completed, Job, Retried, State
from kue.store.contract import Store
from kue.store.redis.keys import Keys, worker_field
from kue.store.values import Limits, Outcome, Progress, RenewRequest, Result
from tests.faults.conftest import NewStore
from tests.support.jobs import HOUR, OOPS, SECOND, T0, add, add_many, claim, claim_ids
from tests.support.schedules import every
from tests.support.servers import RedisServer

pytestmark = pytest.mark.damages

GARBAGE = {
    "empty": b"",
    "text": b"garbage",
    "binary": b"\xff\x00\xfe",
    "numbers": b"-1:-1:-1:-1",
    "json": b"\n\t{",
    "huge": b"9" * 400,
}
TYPE = "email"
LATER = T0 + 4 * SECOND


@pytest.fixture
async def store(redis_server: RedisServer, new_store: NewStore) -> Store:
    return new_store(redis_server.url)


@pytest.fixture(params=GARBAGE)
def garbage(request: pytest.FixtureRequest) -> bytes:
    return GARBAGE[request.param]


@pytest.fixture
async def running(store: Store) -> list[Job]:
    """Three jobs that run, and three waiting that were tried before."""
    await add_many(store, 6, TYPE, attempts=9)
    runs = await claim(store, TYPE, limit=6)
    tried = [Outcome(job, Retried(OOPS)) for job in runs[3:]]
    assert set(await store.settle(tried, now=T0)) == {Result.DONE}
    await store.progress([Progress(job.id, 10) for job in runs[:3]], now=T0)
    await store.tend(now=T0)
    return runs


async def assert_neighbours_run(store: Store, running: list[Job]) -> None:
    """See that all but the first of those that run or wait can go on."""
    renewed = await store.renew(RenewRequest("w1", runs=running[1:3]), now=LATER)
    assert renewed.lost == []
    ended = [Outcome(job, Completed(None)) for job in running[1:3]]
    assert await store.settle(ended, now=LATER) == [Result.DONE] * 2
    started = await claim_ids(store, TYPE, limit=10, worker="w2", now=LATER)
    assert {job.id for job in running[4:]} <= set(started)
    await store.tend(now=LATER)
    await add(store, [draft(TYPE)], now=LATER)
    assert len(await claim_ids(store, TYPE, worker="w2", now=LATER)) == 1
    assert {worker.name for worker in await store.workers()} == {"w1", "w2"}


#: Structures of a type, and the place in `running` of the job whose value is garbage.
OF_A_JOB = [("active", 0), ("progress", 0), ("tries", 3)]


@pytest.mark.parametrize(("structure", "at"), OF_A_JOB)
async def test_garbage_of_a_running_or_waiting_job_stops_no_other(
    store: Store,
    client: redis.Redis,
    keys: Keys,
    running: list[Job],
    structure: str,
    at: int,
    garbage: bytes,
) -> None:
    client.hset(keys.of_type(TYPE, structure), str(running[at].id), garbage)

    await assert_neighbours_run(store, running)


@pytest.mark.parametrize("structure", [f"claims:{T0 // HOUR}", "info", "cancelling"])
async def test_garbage_about_someone_else_stops_no_worker(
    store: Store,
    client: redis.Redis,
    keys: Keys,
    running: list[Job],
    structure: str,
    garbage: bytes,
) -> None:
    client.hset(keys.of_shard(structure), "someone else", garbage)

    await assert_neighbours_run(store, running)


async def test_a_schedule_that_is_garbage_stops_neither_maintenance_nor_other_schedules(
    store: Store, client: redis.Redis, keys: Keys, running: list[Job], garbage: bytes
) -> None:
    for name in ("a", "b", "c"):
        await store.schedule(every(name, "1h", draft(f"of {name}"), first_at=T0))
    client.hset(keys.of_shard("schedules"), "b", garbage)

    await store.tend(now=LATER)

    assert {"of a", "of c"} <= set(await store.types())
    await assert_neighbours_run(store, running)


async def test_garbage_in_what_maintenance_notes_stops_nobody(
    store: Store, client: redis.Redis, keys: Keys, running: list[Job], garbage: bytes
) -> None:
    notes = ("swept", "graced", "idle", "rolled", "rolling", "pauses", "types")
    for note in notes:
        client.hset(keys.of_shard("meta"), note, garbage)

    await assert_neighbours_run(store, running)


async def test_a_damaged_type_keeps_maintenance_from_no_other(
    store: Store, client: redis.Redis, keys: Keys
) -> None:
    """It is an error of every pass, and the others are looked at all the same."""
    delayed = await add_many(store, 2, "a", delay="1s")
    [lost] = await add_many(store, 1, "z")
    assert await claim_ids(store, "z", worker="w9", lease=SECOND) == [lost]
    await add_many(store, 1, "m")
    client.set(keys.of_type("m", "held"), "not a sorted set")

    for now in (LATER, LATER + SECOND):
        with pytest.raises(StoreCorrupt, match=r"in type m\).*kue doctor"):
            await store.tend(now=now)

    found = await store.get([*delayed, lost])
    assert [job.state for job in found if job] == [State.WAITING] * 3


async def test_a_pause_that_is_garbage_stops_at_most_its_own_worker(
    store: Store, client: redis.Redis, keys: Keys, running: list[Job], garbage: bytes
) -> None:
    client.hset(keys.of_shard("paused"), worker_field("w2"), garbage)

    renewed = await store.renew(RenewRequest("w2"), now=T0)

    assert renewed.paused is None or renewed.paused.worker == "w2"
    assert (await store.renew(RenewRequest("w1"), now=T0)).paused is None
    assert await store.workers(now=T0)
    await assert_neighbours_run(store, running)


async def test_a_request_to_cancel_that_is_garbage_still_reaches_its_worker(
    store: Store, client: redis.Redis, keys: Keys, running: list[Job], garbage: bytes
) -> None:
    value = TYPE.encode() + b"\t" + garbage
    client.hset(keys.of_shard("cancelling"), str(running[0].id), value)

    renewed = await store.renew(RenewRequest("w1", runs=running[:3]), now=T0)

    assert (renewed.lost, list(renewed.cancel)) == ([], [running[0].id])
    await assert_neighbours_run(store, running)


async def test_a_limit_that_is_garbage_stops_at_most_its_own_type(
    store: Store, client: redis.Redis, keys: Keys, running: list[Job], garbage: bytes
) -> None:
    await store.limit("video", Limits(concurrency=1), now=T0)
    client.hset(keys.of_shard("limits"), "video", garbage)
    client.hset(keys.of_shard("paused"), "video", garbage)
    await add_many(store, 1, "video")

    await assert_neighbours_run(store, running)


async def test_a_unique_key_held_by_garbage_can_be_taken(
    store: Store, client: redis.Redis, keys: Keys, running: list[Job], garbage: bytes
) -> None:
    client.hset(keys.of_type(TYPE, "unique"), "report", garbage)

    [added] = await add(store, [draft(TYPE, unique="report")], now=LATER)

    assert added.new
    assert added.id in await claim_ids(store, TYPE, now=LATER)
