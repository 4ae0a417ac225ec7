"""`check` of a Redis store with several shards: what is elsewhere than it should be."""

from __future__ import annotations

import pytest

from kue.model.job import State
from kue.store.contract import Store
from kue.store.values import RemoveRequest
from tests.support.hands import Hands, found, left_alone, repaired
from tests.support.jobs import add_one, state_of
from tests.support.upkeep import tend

pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", ["redis-shards"], indirect=True),
]


async def chain(store: Store, hands: Hands) -> tuple[int, int]:
    """Add a job that waits for one on another shard; return both, that one first."""
    now = await store.now()
    parent = await add_one(store, "parent", delay="30d", now=now)
    child = await add_one(store, after=[parent], now=now)
    assert parent % hands.shards != child % hands.shards
    return parent, child


async def test_a_tie_that_is_still_in_the_outbox_is_no_damage(
    store: Store, hands: Hands
) -> None:
    parent, child = await chain(store, hands)
    hands.do("DEL", hands.record(parent, "then"))
    hands.do("SREM", hands.of_shard("parents", parent), parent)
    hands.do("HSET", hands.of_shard("outbox", child), f"link:{child}:{parent}", "0")

    assert await found(store) == []

    await tend(store, await store.now())
    assert hands.do("ZSCORE", hands.record(parent, "then"), child) == child


async def test_an_end_that_is_still_in_the_outbox_is_no_damage(
    store: Store, hands: Hands
) -> None:
    parent, child = await chain(store, hands)
    await store.remove(RemoveRequest([parent]))
    assert hands.do(
        "HEXISTS", hands.of_shard("outbox", parent), f"end:{child}:{parent}"
    )

    assert await found(store) == []

    await tend(store, await store.now())
    assert await state_of(store, child) is State.CANCELLED


async def test_a_record_on_a_shard_that_is_not_its_own_is_left_to_a_person(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    elsewhere = hands.keys_of(job_id + 1)
    hands.do("COPY", hands.record(job_id), elsewhere.job(job_id))

    message = f"key {elsewhere.job(job_id)} is of a job that lives on shard "
    await left_alone(store, hands, "unknown-key", f"{message}{job_id % hands.shards}")


async def test_a_type_on_a_shard_that_is_not_its_own_is_left_to_a_person(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    elsewhere = hands.keys_of(job_id + 1).of_type("email", "waiting")
    hands.do("COPY", hands.of_type("waiting"), elsewhere)

    message = f"key {elsewhere} is of a type that lives on shard "
    await left_alone(store, hands, "unknown-key", f"{message}{job_id % hands.shards}")


async def test_a_job_of_another_shard_in_line_is_taken_out(
    store: Store, hands: Hands
) -> None:
    job_id = await add_one(store)
    hands.do("ZADD", hands.of_type("waiting"), 1, job_id + 1)

    message = f"job {job_id + 1} is in email:waiting, but there can be no such job here"
    await repaired(store, "no-record", message, "take it out")
