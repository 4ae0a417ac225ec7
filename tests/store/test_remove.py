"""`Store.remove` and `Store.clear`: gone is gone, whole and for good."""

from __future__ import annotations

import asyncio

import pytest

from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.values import (
    MAX_BATCH,
    Change,
    Limits,
    LogLine,
    MoveRequest,
    PageRequest,
    Progress,
    RemoveRequest,
    RenewRequest,
    Reply,
    Result,
)
from tests.support.jobs import (
    HOUR,
    T0,
    add_many,
    add_one,
    claim,
    claim_ids,
    count_of,
    end,
    job_in,
    start_one,
    state_of,
)
from tests.support.upkeep import tend

NOT_ACTIVE = [state for state in State if state is not State.ACTIVE]


async def remove(store: Store, job_id: int, *, force: bool = False) -> Reply:
    [reply] = await store.remove(RemoveRequest([job_id], force=force), now=T0)
    return reply


@pytest.mark.parametrize("state", list(State))
async def test_a_job_that_is_no_longer_where_it_was_seen_is_kept(
    store: Store, state: State
) -> None:
    """Who clears failures must not delete what someone has just put back in line."""
    job_id = await job_in(store, state)
    others = [other for other in State if other is not state]

    [kept] = await store.remove(
        RemoveRequest([job_id], force=True, states=others), now=T0
    )
    [gone] = await store.remove(
        RemoveRequest([job_id], force=True, states=[state]), now=T0
    )

    assert kept == Reply(Result.REFUSED, state=state)
    assert gone == Reply(Result.DONE)
    assert await store.get([job_id]) == [None]


async def test_a_running_job_needs_force_even_when_its_state_is_meant(
    store: Store,
) -> None:
    job_id = await job_in(store, State.ACTIVE)

    [reply] = await store.remove(RemoveRequest([job_id], states=[State.ACTIVE]), now=T0)

    assert reply == Reply(Result.REFUSED, state=State.ACTIVE)


@pytest.mark.parametrize("state", NOT_ACTIVE)
async def test_a_job_is_removed_wherever_it_is(store: Store, state: State) -> None:
    """D-1, D-30: no structure knows of it any more."""
    job_id = await job_in(store, state)
    await store.log(job_id, [LogLine("hello")], now=T0)

    assert await remove(store, job_id) == Reply(Result.DONE)

    assert await store.get([job_id]) == [None]
    assert await store.logs(job_id) == []
    assert await count_of(store) == {}
    assert (await store.page(PageRequest(type="email"))).jobs == []
    await tend(store, T0 + 2 * HOUR)
    assert await claim_ids(store, now=T0 + 2 * HOUR) == []


async def test_a_running_job_is_not_removed_by_accident(store: Store) -> None:
    job = await start_one(store)

    assert await remove(store, job.id) == Reply(Result.REFUSED, state=State.ACTIVE)

    assert await end(store, job, Completed()) is Result.DONE


async def test_a_running_job_is_removed_by_force(store: Store) -> None:
    job = await start_one(store, ttl="5s")

    assert await remove(store, job.id, force=True) == Reply(Result.DONE)

    assert await end(store, job, Completed()) is Result.GONE
    assert (await store.renew(RenewRequest("w1", runs=[job]), now=T0)).lost == [job.id]
    assert await store.progress([Progress(job.id, 1)], now=T0) == [Result.GONE]
    assert await store.log(job.id, [LogLine("late")], now=T0) is Result.GONE
    assert await store.update([Change(job.id, data=1)], now=T0) == [Result.GONE]
    assert await store.move(MoveRequest([job.id], State.WAITING), now=T0) == [
        Reply(Result.GONE)
    ]
    assert await store.cancel([job.id], now=T0) == [Reply(Result.GONE)]
    assert await state_of(store, job.id) is None
    [worker] = await store.workers(now=T0)
    assert worker.active == 0


async def test_a_run_removed_by_force_frees_its_slot(store: Store) -> None:
    await store.limit("email", Limits(concurrency=1, per_key=1), now=T0)
    ids = await add_many(store, 2, group="g")
    await claim(store)

    await remove(store, ids[0], force=True)

    assert await claim_ids(store) == [ids[1]]


async def test_removing_twice_is_removing_once(store: Store) -> None:
    job_id = await add_one(store)
    await remove(store, job_id)

    assert await remove(store, job_id) == Reply(Result.GONE)


async def test_an_id_is_not_given_out_again(store: Store) -> None:
    ids = await add_many(store, 3)
    await store.remove(RemoveRequest(ids), now=T0)

    assert await add_one(store) > max(ids)


async def test_many_are_removed_in_one_call_each_with_its_own_answer(
    store: Store,
) -> None:
    waiting = await job_in(store, State.WAITING, "email")
    running = await job_in(store, State.ACTIVE, "sms")
    failed = await job_in(store, State.FAILED, "video")

    replies = await store.remove(
        RemoveRequest([running, failed, 987_654, waiting]), now=T0
    )

    assert replies == [
        Reply(Result.REFUSED, state=State.ACTIVE),
        Reply(Result.DONE),
        Reply(Result.GONE),
        Reply(Result.DONE),
    ]


async def test_more_than_a_batch_is_refused(store: Store) -> None:
    job_id = await add_one(store)

    with pytest.raises(ValueError, match="at most 500"):
        await store.remove(RemoveRequest([job_id] * (MAX_BATCH + 1)), now=T0)

    assert await state_of(store, job_id) is State.WAITING


async def test_two_who_remove_at_once_remove_once(
    store: Store, other_store: Store
) -> None:
    job_id = await add_one(store)

    answers = await asyncio.gather(
        store.remove(RemoveRequest([job_id]), now=T0),
        other_store.remove(RemoveRequest([job_id]), now=T0),
    )

    assert sorted(reply.word for [reply] in answers) == [Result.DONE, Result.GONE]


@pytest.mark.parametrize("state", NOT_ACTIVE)
async def test_a_state_of_a_type_can_be_cleared(store: Store, state: State) -> None:
    await job_in(store, state)
    await job_in(store, state)
    kept = await job_in(store, state, "sms")
    running = await job_in(store, State.ACTIVE, "email", priority=-1)

    assert await store.clear("email", [state], now=T0) == 2
    assert await store.clear("email", [state], now=T0) == 0

    assert await state_of(store, kept) is state
    assert await state_of(store, running) is State.ACTIVE


async def test_all_types_can_be_cleared_of_several_states(store: Store) -> None:
    for type in ("email", "sms", "video"):
        await job_in(store, State.FAILED, type)
        await job_in(store, State.CANCELLED, type)
        await job_in(store, State.WAITING, type)
    states = [State.FAILED, State.CANCELLED]

    removed = 0
    while count := await store.clear(None, states, now=T0):
        removed += count

    assert removed == 6
    for type in ("email", "sms", "video"):
        assert await count_of(store, type) == {State.WAITING: 1}


@pytest.mark.parametrize("type", ["a", "z"])
async def test_what_waits_for_a_cleared_job_is_removed_or_cancelled(
    store: Store, type: str
) -> None:
    """Which of them depends on whose turn comes first."""
    parent = await add_one(store, type)
    child = await add_one(store, "m", after=[parent])
    grandchild = await add_one(store, "m", after=[child])

    await store.clear(None, [State.BLOCKED, State.WAITING], now=T0)
    await tend(store)

    assert await store.get([parent]) == [None]
    left = [job for job in await store.get([child, grandchild]) if job]
    assert {job.state for job in left} <= {State.CANCELLED}


async def test_clearing_goes_in_bounded_steps(store: Store) -> None:
    await add_many(store, 25)

    steps = [await store.clear("email", [State.WAITING], limit=10, now=T0)]
    while steps[-1]:
        steps.append(await store.clear("email", [State.WAITING], limit=10, now=T0))

    assert steps == [10, 10, 5, 0]


async def test_a_bound_is_for_all_types_together(store: Store) -> None:
    for type in ("email", "sms", "video", "report"):
        await add_many(store, 5, type)

    assert await store.clear(None, [State.WAITING], limit=8, now=T0) <= 8


@pytest.mark.parametrize("type", ["email", None])
async def test_running_jobs_cannot_be_cleared(store: Store, type: str | None) -> None:
    await job_in(store, State.ACTIVE)
    failed = await job_in(store, State.FAILED)

    with pytest.raises(ValueError, match="active"):
        await store.clear(type, [State.FAILED, State.ACTIVE], now=T0)

    assert await state_of(store, failed) is State.FAILED


async def test_a_type_nobody_knows_is_clear(store: Store) -> None:
    assert await store.clear("nothing", [State.WAITING], now=T0) == 0
    assert await store.clear(None, [], now=T0) == 0


async def test_clearing_frees_keys_and_deletes_logs(store: Store) -> None:
    job_id = await add_one(store, unique="k")
    await store.log(job_id, [LogLine("hello")], now=T0)
    await store.clear("email", [State.WAITING], now=T0)

    assert await store.logs(job_id) == []
    assert await add_one(store, unique="k") != job_id
