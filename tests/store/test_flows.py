"""Whole graphs of jobs: chains, fans, diamonds, and what happens to them half-way."""

from __future__ import annotations

from kue.model.draft import draft
from kue.model.job import Completed, Failed, State
from kue.store.contract import Store
from kue.store.values import MAX_BATCH, MoveRequest, RemoveRequest
from tests.support.engines import Engine
from tests.support.jobs import (
    OOPS,
    T0,
    add,
    add_many,
    add_one,
    claim,
    claim_one,
    count_of,
    end,
    job_in,
    start_one,
    state_of,
)
from tests.support.upkeep import tend

TYPES = ["email", "sms", "video", "report", "page", "thumbnail"]


async def run_one(store: Store, type: str) -> int:
    """Run the next job of a type to a good end."""
    job = await claim_one(store, type)
    await end(store, job, Completed())
    await tend(store)
    return job.id


async def test_a_chain_runs_link_by_link(store: Store) -> None:
    ids = [await add_one(store, TYPES[0])]
    for type in TYPES[1:]:
        ids.append(await add_one(store, type, after=[ids[-1]]))

    for number, type in enumerate(TYPES):
        waiting = await claim(store, *TYPES[number + 1 :])
        assert waiting == []
        assert await run_one(store, type) == ids[number]


async def test_a_job_may_wait_for_many(store: Store) -> None:
    parents = [await add_one(store, type) for type in TYPES]
    last = await add_one(store, "last", after=parents)
    await tend(store)

    for type in TYPES:
        assert await state_of(store, last) is State.BLOCKED
        await run_one(store, type)

    assert await state_of(store, last) is State.WAITING


async def test_many_may_wait_for_one(store: Store, engine: Engine) -> None:
    parent = await start_one(store, "parent")
    children = [
        await add_one(store, type, after=[parent.id]) for type in TYPES for _ in "123"
    ]
    await tend(store)
    await end(store, parent, Completed())

    tended = await tend(store)

    assert [await state_of(store, child) for child in children] == (
        [State.WAITING] * len(children)
    )
    if engine.shards > 1:
        # What lives on other shards hears of the ending by upkeep.
        assert tended.released > 0


async def test_more_may_wait_for_one_than_fit_a_call(store: Store) -> None:
    parent = await start_one(store, "parent")
    for _ in range(2):
        await add_many(store, MAX_BATCH, "child", after=[parent.id])
    await tend(store)
    await end(store, parent, Completed())

    await tend(store)

    assert await count_of(store, "child") == {State.WAITING: 2 * MAX_BATCH}


async def test_more_may_be_cancelled_with_one_than_fit_a_call(store: Store) -> None:
    parent = await add_one(store, "parent")
    for _ in range(2):
        await add_many(store, MAX_BATCH, "child", after=[parent])
    await tend(store)
    await store.cancel([parent], now=T0)

    await tend(store)

    assert await count_of(store, "child") == {State.CANCELLED: 2 * MAX_BATCH}


async def test_a_diamond_meets_again(store: Store) -> None:
    top = await add_one(store, "email")
    left = await add_one(store, "sms", after=[top])
    right = await add_one(store, "video", after=[top])
    bottom = await add_one(store, "report", after=[left, right])
    await tend(store)

    await run_one(store, "email")
    await run_one(store, "sms")
    assert await state_of(store, bottom) is State.BLOCKED
    await run_one(store, "video")

    assert await state_of(store, bottom) is State.WAITING


async def test_a_parent_that_is_gone_after_it_ended_well_is_done_with(
    store: Store,
) -> None:
    """Removed or pruned, it does not cancel a child that still waits for another."""
    first = await start_one(store, "email")
    second = await start_one(store, "sms")
    child = await add_one(store, "child", after=[first.id, second.id])
    await tend(store)
    await end(store, first, Completed())
    await tend(store)

    await store.remove(RemoveRequest([first.id]), now=T0)
    await tend(store)
    assert await state_of(store, child) is State.BLOCKED
    await end(store, second, Completed())
    await tend(store)

    assert await state_of(store, child) is State.WAITING


async def test_one_cancelled_parent_of_many_is_enough(store: Store) -> None:
    parents = [await add_one(store, type) for type in TYPES]
    child = await add_one(store, "child", after=parents)
    await tend(store)

    await store.cancel([parents[3]], now=T0)
    await tend(store)

    assert await state_of(store, child) is State.CANCELLED
    for type in TYPES[:3]:
        await run_one(store, type)
    assert await state_of(store, child) is State.CANCELLED


async def test_a_job_that_takes_any_end_waits_for_all_of_them(store: Store) -> None:
    good = await start_one(store, "email")
    bad = await start_one(store, "sms")
    unwanted = await add_one(store, "video")
    child = await add_one(
        store, "child", after=[good.id, bad.id, unwanted], on_parent_failure="run"
    )
    await tend(store)

    await end(store, bad, Failed(OOPS))
    await store.cancel([unwanted], now=T0)
    await tend(store)
    assert await state_of(store, child) is State.BLOCKED
    await end(store, good, Completed())
    await tend(store)

    assert await state_of(store, child) is State.WAITING


async def test_a_parent_run_again_releases_nobody_twice(store: Store) -> None:
    parent = await start_one(store, "parent")
    child = await add_one(store, "child", after=[parent.id])
    await end(store, parent, Completed())
    await tend(store)
    await end(store, await claim_one(store, "child"), Completed())

    await store.move(MoveRequest([parent.id], State.WAITING), now=T0)
    await run_one(store, "parent")

    assert await state_of(store, child) is State.COMPLETE


async def test_a_parent_told_twice_that_it_ended_releases_once(store: Store) -> None:
    parent = await start_one(store, "parent")
    other = await start_one(store, "other")
    child = await add_one(store, "child", after=[parent.id, other.id])
    await tend(store)
    for _ in range(3):
        await end(store, parent, Completed())
        await tend(store)

    assert await state_of(store, child) is State.BLOCKED


async def test_a_parent_named_twice_is_waited_for_once(store: Store) -> None:
    parent = await start_one(store, "parent")
    child = await add_one(store, "child", after=[parent.id, parent.id])
    await end(store, parent, Completed())
    await tend(store)

    assert await state_of(store, child) is State.WAITING


async def test_a_call_may_add_jobs_with_and_without_parents(store: Store) -> None:
    parent = await start_one(store, "parent")
    unwanted = await job_in(store, State.CANCELLED, "email")
    added = await add(
        store,
        [
            draft("email", after=[parent.id]),
            draft("sms"),
            draft("video", after=[parent.id], on_parent_failure="run"),
            draft("report", delay=60),
            draft("page", after=[unwanted]),
        ],
    )
    await tend(store)

    assert [await state_of(store, answer.id) for answer in added] == [
        State.BLOCKED,
        State.WAITING,
        State.BLOCKED,
        State.DELAYED,
        State.CANCELLED,
    ]


async def test_a_cancelled_child_put_back_in_line_waits_for_nobody(
    store: Store,
) -> None:
    parent = await add_one(store, "parent")
    child = await add_one(store, "child", after=[parent])
    await tend(store)
    await store.cancel([parent], now=T0)
    await tend(store)

    await store.move(MoveRequest([child], State.WAITING), now=T0)
    await tend(store)

    assert await state_of(store, child) is State.WAITING
