"""
Links between jobs of several shards, when the process that makes them dies midway.

Another process goes on: whatever step was the last, nothing is lost or counted twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.redis.links import join_target, relay
from kue.store.redis.store import RedisStore
from kue.store.values import MoveRequest, PageRequest, RemoveRequest
from tests.support.flows import add_linked, linked, run_all, states_of
from tests.support.hands import Hands, found
from tests.support.jobs import HOUR, T0, add_one, claim, end, get_one, state_of
from tests.support.upkeep import tend

pytestmark = pytest.mark.parametrize("engine", ["redis-shards"], indirect=True)

Step: TypeAlias = Callable[[], Awaitable[Any]]
#: More steps than any call takes.
MAX_STEPS = 60


class DiedError(Exception):
    """The process is gone."""


def _counted(call: Callable[..., Awaitable[Any]], left: Any) -> Any:
    async def counted(*args: Any, **kwargs: Any) -> Any:
        if next(left, None) is None:
            raise DiedError
        return await call(*args, **kwargs)

    return counted


async def does(
    store: Store, what: Callable[[Store], Awaitable[Any]], *, steps: int
) -> bool:
    """
    Have another process do something, which dies after so many calls to Redis.

    Returns whether it got to the end.
    """
    dying = store.twin()
    assert isinstance(dying, RedisStore)
    await dying.open()
    left, client = iter(range(steps)), dying._db.client
    others = asyncio.all_tasks()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("run", "read", "read_many"):
            patch.setattr(client, name, _counted(getattr(client, name), left))
        try:
            await what(dying)
        except DiedError:
            return False
        finally:
            # What it did on other shards at the same time gets to its end first.
            await asyncio.gather(*asyncio.all_tasks() - others, return_exceptions=True)
            await dying.close()
    return True


async def blocked(store: Store, hands: Hands, **options: Any) -> tuple[int, int]:
    """Add a job that waits for another, which is far from its end; return both."""
    parent = await add_one(store, "parent", delay="30d")
    target = await add_one(store, "email", after=[parent], **options)
    assert target % hands.shards != parent % hands.shards
    return parent, target


async def complete(store: Store, job_id: int, type: str) -> None:
    await store.move(MoveRequest([job_id], State.WAITING), now=T0)
    assert await run_all(store, type) == [job_id]


async def run_now(store: Store, type: str) -> list[int]:
    """Complete what waits, without maintenance."""
    jobs = await claim(store, type, limit=100)
    for job in jobs:
        await end(store, job, Completed())
    return [job.id for job in jobs]


@pytest.mark.parametrize("is_quick", [False, True])
async def test_a_joining_that_dies_midway_is_neither_lost_nor_counted_twice(
    store: Store, hands: Hands, is_quick: bool
) -> None:
    """The new job may be *quick*: it has ended before another process goes on."""
    for step in range(MAX_STEPS):
        parent, target = await blocked(store, hands)
        draft = linked("parent", before=[target])

        def add(dying: Store, draft: Any = draft, step: int = step) -> Awaitable[Any]:
            return dying.add([draft], producer="p", seq=step, now=T0)

        is_done = await does(store, add, steps=step)
        ended = await run_now(store, "parent") if is_quick else []
        await tend(store)
        assert await found(store) == []

        assert await state_of(store, target) is State.BLOCKED
        await complete_all(store, parent, ended)
        assert await state_of(store, target) is State.WAITING
        await run_all(store, "email")
        if is_done:
            return
    raise AssertionError("the call never ends")


async def complete_all(store: Store, parent: int, ended: list[int]) -> None:
    """Complete everything that a blocked job still waits for."""
    await store.move(MoveRequest([parent], State.WAITING), now=T0)
    assert not set(await run_now(store, "parent")) & set(ended)
    await tend(store)


async def test_a_joining_that_is_repeated_late_does_no_harm(
    store: Store, hands: Hands
) -> None:
    """A second process carried it all out, and the new job has ended since."""
    assert isinstance(store, RedisStore)
    parent, target = await blocked(store, hands)
    [new] = await add_linked(store, linked("parent", before=[target]))
    await run_all(store, "parent")
    assert hands.do("SISMEMBER", hands.record(target, "after"), new) == 0

    hands.do("HSET", hands.of_shard("outbox", new), f"join:{target}:{new}", "")
    word = await join_target(store._db, target, new, now=T0)

    assert word == "joined"
    assert hands.do("SISMEMBER", hands.record(target, "after"), new) == 0
    await complete(store, parent, "parent")
    assert await state_of(store, target) is State.WAITING


async def test_a_joining_that_stops_after_its_first_half_is_finished_by_maintenance(
    store: Store, hands: Hands
) -> None:
    assert isinstance(store, RedisStore)
    parent, target = await blocked(store, hands)
    new = await add_one(store, "parent")
    await run_now(store, "parent")
    await store._db.run(target % hands.shards, "join", target, new)
    assert hands.do("SISMEMBER", hands.record(target, "after"), new) == 1

    await tend(store)

    assert hands.do("SISMEMBER", hands.record(target, "after"), new) == 0
    await complete(store, parent, "parent")
    assert await state_of(store, target) is State.WAITING


async def test_a_call_with_references_that_died_is_completed_when_it_is_repeated(
    store: Store,
) -> None:
    """Chains that alternate between shards are added in as many parts."""
    for step in range(MAX_STEPS):
        drafts = [linked("parent"), *_chain("email", "parent", "email")]

        def add(dying: Store, drafts: Any = drafts, step: int = step) -> Awaitable[Any]:
            return dying.add(drafts, producer="p", seq=step, now=T0)

        is_done = await does(store, add, steps=step)
        added = await store.add(drafts, producer="p", seq=step, now=T0)
        ids = [one.id for one in added]
        await tend(store)

        assert len(set(ids)) == len(ids)
        jobs = [await get_one(store, job_id) for job_id in ids]
        assert [job.spec.after for job in jobs] == [(), *((one,) for one in ids[:-1])]
        for job_id, type in zip(ids, ["parent", "email"] * 2, strict=True):
            assert await run_all(store, type) == [job_id]
        if is_done:
            return
    raise AssertionError("the call never ends")


def _chain(*types: str) -> list[Any]:
    return [linked(type, after=[-at]) for at, type in enumerate(types, 1)]


async def test_a_target_waits_for_a_call_that_died_for_an_hour(
    store: Store, hands: Hands
) -> None:
    """Some of what should come before it is missing: the call may still be repeated."""
    drafts = [linked("email"), *(linked("parent", before=[-1]) for _ in range(3))]

    def add(dying: Store) -> Awaitable[Any]:
        return dying.add(drafts, producer="p", seq=1, now=T0)

    # Dies after the first part, with which only the target is added.
    assert not await does(store, add, steps=1)
    await tend(store)
    [target] = [job.id for job in (await store.page(PageRequest())).jobs]
    assert await state_of(store, target) is State.BLOCKED
    assert await found(store) == []

    await tend(store, T0 + HOUR - 1)
    assert await state_of(store, target) is State.BLOCKED
    await tend(store, T0 + HOUR)

    assert await state_of(store, target) is State.WAITING
    assert await found(store) == []


async def test_a_target_that_was_held_is_released_with_the_repeated_call(
    store: Store,
) -> None:
    for step in range(MAX_STEPS):
        drafts = [linked("email"), *(linked("parent", before=[-1]) for _ in range(2))]

        def add(dying: Store, drafts: Any = drafts, step: int = step) -> Awaitable[Any]:
            return dying.add(drafts, producer="p", seq=step, now=T0)

        is_done = await does(store, add, steps=step)
        added = await store.add(drafts, producer="p", seq=step, now=T0)
        target, *members = [one.id for one in added]
        await tend(store)

        assert await state_of(store, target) is State.BLOCKED
        assert await run_all(store, "parent") == members
        assert await run_all(store, "email") == [target]
        assert await found(store) == []
        if is_done:
            return
    raise AssertionError("the call never ends")


# -- flows ---------------------------------------------------------------------


async def test_the_index_of_another_shard_goes_whatever_step_maintenance_died_at(
    store: Store, hands: Hands
) -> None:
    for step in range(MAX_STEPS):
        root = await add_one(store, "email")
        added = await store.add(
            [linked("parent", flow=root)], producer="p", seq=step, now=T0
        )
        [member] = [one.id for one in added]
        index = hands.of_shard(f"members:{root}", member)

        def maintain(dying: Store) -> Awaitable[Any]:
            return dying.tend(now=T0)

        first = await does(store, maintain, steps=step)
        assert await found(store) == []
        await store.remove(RemoveRequest([root]), now=T0)
        assert (await store.members(root)).jobs == []
        again = await does(store, maintain, steps=step)
        assert await found(store) == []
        await tend(store)

        assert hands.do("EXISTS", index, hands.of_shard(f"flow:{root}", member)) == 0
        assert await states_of(store, [member]) == [State.WAITING]
        if first and again:
            return
    raise AssertionError("maintenance never ends")


async def test_members_of_a_flow_that_was_removed_before_it_knew_are_forgotten(
    store: Store, hands: Hands
) -> None:
    root = await add_one(store, "email")
    added = await store.add([linked("parent", flow=root)], producer="p", seq=1, now=T0)
    member = added[0].id
    await store.remove(RemoveRequest([root]), now=T0)

    await tend(store)

    assert hands.do("EXISTS", hands.of_shard(f"members:{root}", member)) == 0
    await store.cancel([member], now=T0)
    assert hands.do("EXISTS", hands.of_shard(f"flow:{root}", member)) == 0


async def test_a_job_that_waits_again_is_not_forgotten_by_a_late_message(
    store: Store, hands: Hands
) -> None:
    """A process read that it no longer waits, and carries it out too late."""
    assert isinstance(store, RedisStore)
    parent, child = await blocked(store, hands)
    await store.cancel([child], now=T0)
    await store.move(MoveRequest([child], State.BLOCKED), now=T0)
    outbox = hands.of_shard("outbox", child)
    assert hands.do("HLEN", outbox) == 0

    late = f"unlink:{child}:{parent}".encode()
    await relay(store._db, child % hands.shards, late, b"", T0)

    await complete(store, parent, "parent")
    assert await state_of(store, child) is State.WAITING


async def test_a_joining_survives_that_another_process_just_deleted_its_entry(
    store: Store, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one carried out an earlier link of the same two jobs."""
    assert isinstance(store, RedisStore)
    parent, target = await blocked(store, hands)
    [new] = await add_linked(store, linked("parent", before=[target]))
    await run_all(store, "parent")
    hands.do("HSET", hands.of_shard("outbox", new), f"join:{target}:{new}", "")
    run = store._db.run

    async def and_delete(shard: int, script: str, *args: Any, **options: Any) -> Any:
        reply = await run(shard, script, *args, **options)
        if script == "join":
            hands.do("HDEL", hands.of_shard("outbox", target), f"link:{target}:{new}")
        return reply

    monkeypatch.setattr(store._db, "run", and_delete)
    await tend(store)

    assert hands.do("SISMEMBER", hands.record(target, "after"), new) == 0
    await complete(store, parent, "parent")
    assert await state_of(store, target) is State.WAITING
