"""`check` of a Redis store: jobs that wait for others, and ties cut by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.job import State
from kue.store.contract import Store
from kue.store.values import MoveRequest, RemoveRequest
from tests.support.engines import Engine
from tests.support.hands import Hands, found, repaired
from tests.support.jobs import (
    HOUR,
    add,
    add_many,
    add_one,
    get_one,
    job_in,
    state_of,
)
from tests.support.upkeep import tend

#: Whose jobs are waited for: with several shards, "parent" lives on another one.
PARENTS = ["email", "parent"]

pytestmark = [
    pytest.mark.damages,
    pytest.mark.parametrize("engine", ["redis", "redis-shards"], indirect=True),
]
by_parent = pytest.mark.parametrize("kind", PARENTS)


async def chain(store: Store, kind: str, **options: Any) -> tuple[int, int]:
    """Add a job that waits for another; return both, the other one first."""
    parent = await add_one(store, kind, delay="30d", now=await store.now())
    child = await add_one(store, after=[parent], now=await store.now(), **options)
    assert await state_of(store, child) is State.BLOCKED
    return parent, child


def cut(hands: Hands, parent: int) -> None:
    """Have a parent know nothing of those that wait for it."""
    hands.do("DEL", hands.record(parent, "then"), hands.record(parent, "finally"))
    hands.do("SREM", hands.of_shard("parents", parent), parent)


def lose(hands: Hands, parent: int, kind: str) -> None:
    """Take a delayed job away without notifying anyone."""
    hands.do("ZREM", hands.of_type("delayed", kind), parent)
    hands.do("DEL", hands.record(parent))
    hands.mark_live(parent, 0)
    hands.mark_lost(parent)


async def settle_down(store: Store) -> None:
    await tend(store, await store.now())


def test_the_kinds_of_parents_live_where_they_should(
    hands: Hands, engine: Engine
) -> None:
    is_apart = hands.home("ids", "parent") != hands.home("ids", "email")
    assert is_apart == (engine.shards > 1)


# -- stuck ---------------------------------------------------------------------


@by_parent
async def test_a_job_that_waits_for_a_complete_one_is_released(
    store: Store, hands: Hands, kind: str
) -> None:
    parent, child = await chain(store, kind)
    done = await job_in(store, State.COMPLETE, kind, now=await store.now())
    # The parent has ended, and neither its history nor its lists have the child.
    hands.do("SREM", hands.record(child, "after"), parent)
    hands.do("SADD", hands.record(child, "after"), done)
    cut(hands, parent)

    message = f"job {child} waits for job {done}, which is complete"
    await repaired(store, "stuck-blocked", message, "have maintenance release it")

    await settle_down(store)
    assert await state_of(store, child) is State.WAITING
    assert await found(store) == []


@by_parent
async def test_a_job_that_waits_for_one_that_is_gone_is_cancelled(
    store: Store, hands: Hands, kind: str
) -> None:
    parent, child = await chain(store, kind)
    grandchild = await add_one(store, after=[child])
    lose(hands, parent, kind)
    cut(hands, parent)

    message = f"job {child} waits for job {parent}, which is gone"
    repair = "have maintenance cancel it, as its parent can no longer succeed"
    await repaired(store, "stuck-blocked", message, repair)

    await settle_down(store)
    assert await state_of(store, child) is State.CANCELLED
    assert await state_of(store, grandchild) is State.CANCELLED
    assert await found(store) == []


@by_parent
async def test_a_job_that_waits_for_any_end_of_one_that_is_gone_is_released(
    store: Store, hands: Hands, kind: str
) -> None:
    parent, child = await chain(store, kind, on_parent_failure="run")
    lose(hands, parent, kind)

    codes = await found(store, repair=True)

    assert ("stuck-blocked", child) in codes
    assert await found(store) == []
    await settle_down(store)
    assert await state_of(store, child) is State.WAITING
    assert await found(store) == []


@by_parent
async def test_a_parent_that_does_not_know_of_its_child_is_told(
    store: Store, hands: Hands, kind: str
) -> None:
    parent, child = await chain(store, kind)
    cut(hands, parent)

    message = f"job {child} waits for job {parent}, which does not know of it"
    await repaired(store, "stuck-blocked", message, "have that one know of it")

    await settle_down(store)
    assert await found(store) == []
    await store.move(MoveRequest([parent], State.WAITING))
    await store.remove(RemoveRequest([parent]))
    await settle_down(store)
    assert await state_of(store, child) is State.CANCELLED


async def test_a_failed_parent_may_yet_end_well(store: Store, hands: Hands) -> None:
    parent, child = await chain(store, "email")
    hands.do("ZREM", hands.of_type("delayed"), parent)
    hands.do("ZADD", hands.of_type("failed"), 1, parent)

    assert await found(store) == []

    cut(hands, parent)
    message = f"job {child} waits for job {parent}, which does not know of it"
    await repaired(store, "stuck-blocked", message, "have that one know of it")


@by_parent
async def test_a_parent_whose_list_was_lost_has_it_again(
    store: Store, hands: Hands, kind: str
) -> None:
    """Both sides are wrong, and repairing one must not undo the other."""
    parent, child = await chain(store, kind)
    hands.do("DEL", hands.record(parent, "then"))

    codes = await found(store, repair=True)

    assert sorted(codes) == [("stray-link", parent), ("stuck-blocked", child)]
    await settle_down(store)
    assert await found(store) == []
    assert hands.do("ZSCORE", hands.record(parent, "then"), child) == child


async def test_a_job_that_waits_for_nothing_still_waits_for_its_time(
    store: Store, hands: Hands
) -> None:
    parent, child = await chain(store, "email", delay="1h")
    hands.do("DEL", hands.record(child, "after"))
    hands.do("DEL", hands.record(parent, "then"))

    await store.check(repair=True)

    promote_at = (await get_one(store, child)).promote_at
    assert promote_at is not None
    assert abs(promote_at - await store.now() - HOUR) < 60_000
    assert await found(store) == []


@by_parent
async def test_a_job_that_forgot_what_it_waits_for_waits_for_it_again(
    store: Store, hands: Hands, kind: str
) -> None:
    """Its parents know: it must not run before they end."""
    parent, child = await chain(store, kind)
    hands.do("DEL", hands.record(child, "after"))

    message = f"job {child} is blocked and on the list of job {parent}, but does not "
    message += "list that one"
    await repaired(store, "stuck-blocked", message, f"have it wait for job {parent}")

    assert await state_of(store, child) is State.BLOCKED


@by_parent
async def test_a_job_on_the_wrong_list_of_its_parent_is_taken_off_that(
    store: Store, hands: Hands, kind: str
) -> None:
    parent, child = await chain(store, kind)
    hands.do("ZADD", hands.record(parent, "finally"), child, child)

    message = f"job {child} is on the wrong list of job {parent}"
    await repaired(store, "stray-link", message, "take it off the list")


# -- stray ---------------------------------------------------------------------


@by_parent
@pytest.mark.parametrize("part", ["then", "finally"])
async def test_a_job_that_does_not_wait_is_taken_off_its_parents_list(
    store: Store, hands: Hands, kind: str, part: str
) -> None:
    parent = await add_one(store, kind, delay="1h")
    job_id = await add_one(store, now=await store.now())
    hands.do("ZADD", hands.record(parent, part), job_id, job_id)
    hands.do("SADD", hands.of_shard("parents", parent), parent)

    message = f"job {job_id} is in waiting, but job {parent} still lists it"
    await repaired(store, "stray-link", message, "take it off the list")

    assert not hands.do("EXISTS", hands.of_shard("parents", parent))


@by_parent
async def test_a_job_that_is_gone_is_taken_off_its_parents_list(
    store: Store, hands: Hands, kind: str
) -> None:
    parent, child = await chain(store, kind)
    gone = child + 40
    hands.do("ZADD", hands.record(parent, "then"), gone, gone)

    message = f"job {gone} is gone, but job {parent} still lists it"
    await repaired(store, "stray-link", message, "take it off the list")

    assert hands.do("ZRANGE", hands.record(parent, "then"), 0, -1) == [
        str(child).encode()
    ]


async def test_a_parent_that_does_not_count_as_one_is_counted(
    store: Store, hands: Hands
) -> None:
    """Or nobody would be notified of its end."""
    parent, child = await chain(store, "email")
    hands.do("DEL", hands.of_shard("parents", parent))

    message = f"job {parent} has jobs that wait for it, but does not count as one with "
    await repaired(store, "stray-link", message + "such", "count it")

    await store.remove(RemoveRequest([parent]))
    assert await state_of(store, child) is State.CANCELLED


@pytest.mark.parametrize("part", ["log", "stream", "after", "then", "finally"])
async def test_what_a_job_that_is_gone_left_behind_is_deleted(
    store: Store, hands: Hands, part: str
) -> None:
    job_id, other = await add_many(store, 2)
    await store.remove(RemoveRequest([job_id]))
    key = hands.record(job_id, part)
    adds = {"log": ("RPUSH", key, "{}"), "after": ("SADD", key, other)}
    adds["stream"] = ("RPUSH", key, '1:1:1\t"a"')
    hands.do(*adds.get(part, ("ZADD", key, other, other)))

    codes = await found(store)
    assert ("stray-log", job_id) in codes
    [finding] = [f for f in (await store.check()).findings if f.code == "stray-log"]
    assert finding.message == f"job {job_id} is gone, but its {part} is still there"
    assert finding.repair == "delete it"

    await store.check(repair=True)

    assert await found(store) == []
    assert not hands.do("EXISTS", key)


# -- what must not be found ----------------------------------------------------


async def test_what_upkeep_is_still_to_tell_is_no_damage(store: Store) -> None:
    """One call releases no more than some; the rest is in the outbox."""
    parent = await add_one(store)
    await add_many(store, 450, after=[parent])
    await store.cancel([parent])
    assert (await store.count())["email"][State.BLOCKED] > 0

    assert await found(store, repair=True) == []

    await tend(store)
    assert (await store.count())["email"][State.CANCELLED] == 451
    assert await found(store) == []


async def test_a_tree_of_jobs_on_all_shards_is_sound(store: Store) -> None:
    types = [f"type {number}" for number in range(8)]
    first = [added.id for added in await add(store, [draft(name) for name in types])]
    second = [
        added.id
        for added in await add(store, [draft(name, after=first) for name in types])
    ]
    await add(
        store, [draft(name, after=second, on_parent_failure="run") for name in types]
    )

    assert await found(store) == []
