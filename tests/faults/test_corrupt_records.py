"""A job whose bytes are damaged is set aside or failed; its neighbours run."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
import redis

from kue.model.errors import StoreError
from kue.model.events import Kind
from kue.model.job import Completed, State
from kue.store.contract import Events, Store
from kue.store.redis.keys import Keys
from kue.store.values import Result
from tests.faults.conftest import NewStore
from tests.faults.scene import LATER, TYPE, VERBS, build, id_of
from tests.support.jobs import (
    HOUR,
    T0,
    add_many,
    claim,
    claim_ids,
    count_of,
    end,
    get_one,
)
from tests.support.patience import PATIENCE_SECONDS
from tests.support.servers import RedisServer


@pytest.fixture
async def store(redis_server: RedisServer, new_store: NewStore) -> Store:
    return new_store(redis_server.url)


@pytest.mark.damages
@pytest.mark.parametrize("place", ["waiting", "delayed"])
async def test_an_id_without_a_record_is_parked_and_reported_and_its_neighbours_run(
    store: Store, client: redis.Redis, keys: Keys, place: str
) -> None:
    delay = "1s" if place == "delayed" else 0
    ids = await add_many(store, 5, TYPE, delay=delay)
    client.delete(keys.job(ids[2]))

    async with store.watch() as events:
        started = await claim_ids(store, TYPE, now=LATER)
        again = await claim_ids(store, TYPE, now=LATER)
        reported = await first(events, Kind.ERROR)

    assert started == [job_id for job_id in ids if job_id != ids[2]]
    assert again == []
    assert reported == ids[2]
    assert client.zrange(keys.of_type(TYPE, "parked"), 0, -1) == [b"%d" % ids[2]]
    assert await store.get([ids[2]]) == [None]
    # The doctor sees what happened, and it is the only thing it sees.
    report = await store.check()
    assert {finding.job_id for finding in report.findings} == {ids[2]}


async def first(events: Events, kind: Kind) -> int:
    """Return the job of the first event of a kind."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in events:
            if event.kind is kind:
                return event.job_id
    raise AssertionError("the events ended")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"\x00\xff\xfe",
        b'{"data":',
        b'["a","list"]',
        b'{"max_attempts":"many"}',
        # Deeper than any limit on recursion that another test may have left.
        b'{"data":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
    ids=["empty", "text", "binary", "cut", "list", "kind", "deep"],
)
async def test_a_job_whose_body_is_garbage_fails_and_is_not_tried_again(
    store: Store, client: redis.Redis, keys: Keys, body: bytes
) -> None:
    ids = await add_many(store, 3, TYPE)
    record = read(client, keys.job(ids[1]))
    client.set(keys.job(ids[1]), record.partition(b"\n")[0] + b"\n" + body)

    started = await claim_ids(store, TYPE, now=LATER)
    again = await claim_ids(store, TYPE, now=LATER)

    assert (started, again) == ([ids[0], ids[2]], [])
    assert await count_of(store, TYPE) == {State.ACTIVE: 2, State.FAILED: 1}
    assert b"CorruptPayload" in read(client, keys.job(ids[1]))


@pytest.mark.damages
@pytest.mark.parametrize("seed", range(6))
async def test_random_bytes_in_what_is_kept_of_jobs_stop_no_worker(
    store: Store, client: redis.Redis, keys: Keys, seed: int
) -> None:
    scene = await build(store)
    random = Random(seed)
    # There is no job yet that was reserved.
    names = [name for name in scene.__slots__ if name != "reserved"]
    spoil(client, keys, random, [id_of(scene, name) for name in names])
    surprises: list[str] = []

    for name, verb in VERBS.items():
        try:
            await verb(store, scene)
        except StoreError:
            continue
        except Exception as exc:
            surprises.append(f"{name} raised {exc!r}")

    assert "\n".join(surprises) == ""
    # Whatever the others are by now, a new job of the type runs as ever.
    await assert_runs(store)


def read(client: redis.Redis, key: str) -> bytes:
    value = client.get(key)
    assert isinstance(value, bytes)
    return value


def spoil(client: redis.Redis, keys: Keys, random: Random, ids: list[int]) -> None:
    """Change the bytes of some records and of every small value of a job."""
    for job_id in random.sample(ids, 4):
        client.set(keys.job(job_id), noise(random, read(client, keys.job(job_id))))
    of_type = ("active", "tries", "progress", "unique", "running", "rate")
    of_shard = (
        f"claims:{T0 // HOUR}",
        "paused",
        "limits",
        "cancelling",
        "info",
        "schedules",
    )
    for key in (
        *(keys.of_type(TYPE, structure) for structure in of_type),
        *(keys.of_shard(structure) for structure in of_shard),
    ):
        for field, value in client.hgetall(key).items():
            assert isinstance(value, bytes)
            client.hset(key, field, noise(random, value))


def noise(random: Random, value: bytes) -> bytes:
    """Return *value* with some bytes changed, cut off, or nothing of it at all."""
    choice = random.randrange(4)
    if choice == 0:
        return random.randbytes(random.randrange(60))
    if choice == 1:
        return value[: random.randrange(len(value) + 1)]
    spoiled = bytearray(value)
    for _ in range(random.randrange(1, 4)):
        if spoiled:
            spoiled[random.randrange(len(spoiled))] = random.randrange(256)
    return bytes(spoiled)


async def assert_runs(store: Store) -> None:
    await store.limit(TYPE, None, now=LATER)
    await store.resume(TYPE, now=LATER)
    await store.resume(now=LATER)
    [job_id] = await add_many(store, 1, TYPE, now=LATER, priority=-1000)
    running = await claim(store, TYPE, now=LATER, worker="w9")
    [job] = [job for job in running if job.id == job_id]
    assert await end(store, job, Completed(None), now=LATER) is Result.DONE
    assert (await get_one(store, job_id)).state is State.COMPLETE
