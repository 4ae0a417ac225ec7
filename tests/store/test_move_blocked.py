"""Finished jobs that are moved to blocked: they wait for their parents again."""

from __future__ import annotations

import pytest

from kue.model.job import Failed, State
from kue.store.contract import Store
from kue.store.values import (
    FlowCounts,
    MoveRequest,
    RemoveRequest,
    Reply,
    Result,
)
from tests.support.flows import add_linked, linked, run_all, states_of
from tests.support.jobs import (
    MINUTE,
    OOPS,
    T0,
    add_one,
    get_one,
    job_in,
    outcomes,
    state_of,
)
from tests.support.upkeep import tend

#: Enough types that some of them live on different shards.
TYPES = ["email", "sms", "video", "report", "page", "thumbnail"]


async def move(store: Store, job_id: int, to: State = State.BLOCKED) -> Reply:
    [reply] = await store.move(MoveRequest([job_id], to), now=T0)
    await tend(store)
    return reply


async def test_a_flow_is_retried_from_the_job_that_failed(store: Store) -> None:
    first, *rest = await add_linked(
        store,
        linked(TYPES[0], flow=-1),
        *(
            linked(type, after=[-number], flow=-1, on_parent_failure="cancel")
            for number, type in enumerate(TYPES[1:], start=1)
        ),
    )
    await run_all(store, TYPES[0], ending=Failed(OOPS))
    assert set(await states_of(store, rest)) == {State.CANCELLED}

    await move(store, first, State.WAITING)
    for job_id in rest:
        assert await move(store, job_id) == Reply(Result.DONE)

    assert set(await states_of(store, rest)) == {State.BLOCKED}
    assert await store.flow_counts([first]) == [FlowCounts(6)]
    for job_id in [first, *rest]:
        assert await run_all(store, *TYPES) == [job_id]
    assert await store.flow_counts([first]) == [FlowCounts(6, complete=6)]
    assert outcomes(await get_one(store, rest[0])) == [
        *("cancelled", "restarted"),
        "complete",
    ]


@pytest.mark.parametrize("state", [State.COMPLETE, State.FAILED, State.CANCELLED])
async def test_a_job_without_parents_to_wait_for_runs_again(
    store: Store, state: State
) -> None:
    job_id = await job_in(store, state)

    assert await move(store, job_id) == Reply(Result.DONE)

    assert await state_of(store, job_id) is State.WAITING


async def test_the_delay_of_a_job_counts_from_its_release(store: Store) -> None:
    parent = await add_one(store, "parent", delay="1d")
    [child] = await add_linked(store, linked("child", after=[parent], delay="1m"))
    await store.cancel([child], now=T0)
    await move(store, child)
    assert await state_of(store, child) is State.BLOCKED

    await move(store, parent, State.WAITING)
    await run_all(store, "parent")
    assert (await get_one(store, child)).promote_at == T0 + MINUTE
    await store.cancel([child], now=T0)
    await move(store, child)

    job = await get_one(store, child)
    assert (job.state, job.promote_at) == (State.DELAYED, T0 + MINUTE)


@pytest.mark.parametrize("how", ["failed", "cancelled", "removed"])
async def test_a_job_that_its_parents_would_cancel_stays_as_it_is(
    store: Store, how: str
) -> None:
    parent = await add_one(store, "parent")
    [child] = await add_linked(
        store, linked("child", after=[parent], on_parent_failure="cancel")
    )
    if how == "failed":
        await run_all(store, "parent", ending=Failed(OOPS))
    elif how == "cancelled":
        await store.cancel([parent], now=T0)
    else:
        await store.remove(RemoveRequest([parent]), now=T0)
    await tend(store)
    before = await get_one(store, child)

    assert await move(store, child) == Reply(Result.REFUSED, state=State.CANCELLED)

    assert await get_one(store, child) == before


async def test_a_job_for_failures_waits_for_the_next_one(store: Store) -> None:
    parent = await add_one(store, "parent")
    [catch] = await add_linked(
        store, linked("catch", after=[parent], on_parent_failure="only")
    )
    await run_all(store, "parent")
    assert await state_of(store, catch) is State.CANCELLED

    await move(store, parent, State.WAITING)
    await move(store, catch)
    assert await state_of(store, catch) is State.BLOCKED
    await run_all(store, "parent", ending=Failed(OOPS))

    assert await run_all(store, "catch") == [catch]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.BLOCKED, Reply(Result.ALREADY)),
        (State.WAITING, Reply(Result.REFUSED, state=State.WAITING)),
        (State.DELAYED, Reply(Result.REFUSED, state=State.DELAYED)),
        (State.ACTIVE, Reply(Result.REFUSED, state=State.ACTIVE)),
    ],
)
async def test_only_finished_jobs_are_blocked_again(
    store: Store, state: State, expected: Reply
) -> None:
    job_id = await job_in(store, state)

    assert await move(store, job_id) == expected

    assert await state_of(store, job_id) is state


async def test_another_holder_of_the_unique_key_prevents_it(store: Store) -> None:
    parent = await add_one(store, "parent")
    [child] = await add_linked(store, linked("child", after=[parent], unique="k"))
    await store.cancel([child], now=T0)
    holder = await add_one(store, "child", unique="k")

    assert await move(store, child) == Reply(Result.HELD, holder=holder)

    assert await state_of(store, child) is State.CANCELLED
    await run_all(store, "parent")
    assert await state_of(store, child) is State.CANCELLED
