"""`check` of a Redis store: the counts of errors, damaged by hand."""

from __future__ import annotations

import pytest

from kue.model.fingerprint import fingerprint
from kue.model.job import Error, Failed, State
from kue.store.contract import Store
from kue.store.values import RemoveRequest
from tests.support.hands import Hands, found, repaired
from tests.support.jobs import OOPS, T0, end, job_in, start_one

pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True),
]

MARK = fingerprint(OOPS)
DRIFT = (
    "error-drift",
    "the errors of 'email' are not counted as its failed jobs have them",
    "count again",
)


@pytest.mark.parametrize(
    ("command", "structure", "rest"),
    [
        ("ZINCRBY", "errors", (1, MARK)),
        ("ZINCRBY", "errors", (0.5, MARK)),
        ("ZADD", "errors", (1, "0123456789ab")),
        ("DEL", "errors", ()),
        ("DEL", "causes", ()),
        ("HDEL", "causes", (MARK,)),
        ("HDEL", "causes", (f"{MARK}:last",)),
        ("HSET", "causes", ("0123456789ab", "1")),
        ("HSET", "causes", ("stray", "1")),
    ],
)
async def test_errors_that_are_counted_wrongly_are_counted_again(
    store: Store, hands: Hands, command: str, structure: str, rest: tuple[object, ...]
) -> None:
    for _ in range(2):
        await job_in(store, State.FAILED)
    before = await store.errors()
    hands.do(command, hands.of_type(structure), *rest)

    await repaired(store, *DRIFT)

    assert await store.errors() == before


async def test_errors_that_are_counted_again_say_what_they_said(
    store: Store, hands: Hands
) -> None:
    for at, kind in enumerate(("A", "B", "A")):
        error = Error(kind, f"no. {at}\nand more", "a stack")
        await end(store, await start_one(store), Failed(error), now=T0 + at)
    before = await store.errors()
    hands.do("DEL", hands.of_type("errors"))
    hands.do("DEL", hands.of_type("causes"))

    await store.check(repair=True)

    assert await store.errors() == before


async def test_errors_of_no_job_are_forgotten(store: Store, hands: Hands) -> None:
    job_id = await job_in(store, State.FAILED)
    errors = hands.do("DUMP", hands.of_type("errors"))
    await store.remove(RemoveRequest([job_id]))
    hands.do("RESTORE", hands.of_type("errors"), 0, errors)

    await repaired(store, *DRIFT)

    assert (await store.errors()).total == 0


async def test_a_job_that_a_repair_fails_is_counted_with_its_error(
    store: Store, hands: Hands
) -> None:
    job = await start_one(store, delivery="at-most-once")
    hands.do("HSET", hands.of_type("active"), job.id, "garbage")

    assert await found(store, repair=True) == [("bad-run", job.id)]

    [group] = (await store.errors()).groups
    assert (group.kind, group.job_id) == ("RunLost", job.id)
    assert await found(store) == []


async def test_a_failed_job_that_was_put_back_counts_once(
    store: Store, hands: Hands
) -> None:
    job_id = await job_in(store, State.FAILED)
    hands.do("ZREM", hands.of_type("failed"), job_id)

    assert await found(store) == [("in-no-state", job_id)]
    assert await found(store, repair=True) == [("in-no-state", job_id)]

    assert [group.count for group in (await store.errors()).groups] == [1]
    assert await found(store) == []
