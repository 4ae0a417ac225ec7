"""`Store.cancel`: at once, unless it runs; then its worker is asked."""

from __future__ import annotations

import pytest

from kue.model.job import (
    Cancelled,
    Completed,
    Ending,
    Released,
    Retried,
    Stalled,
    State,
)
from kue.store.contract import Store
from kue.store.values import MAX_BATCH, MoveRequest, RenewRequest, Reply, Result
from tests.support.jobs import (
    HOUR,
    OOPS,
    SECOND,
    T0,
    add_many,
    add_one,
    claim_ids,
    claim_one,
    count_of,
    end,
    get_one,
    job_in,
    start_one,
    state_of,
)
from tests.support.upkeep import lose_worker, tend

UNSTARTED = [State.WAITING, State.DELAYED, State.BLOCKED]


async def cancel(store: Store, job_id: int, *, reason: str = "") -> Reply:
    [reply] = await store.cancel([job_id], reason=reason, now=T0)
    return reply


@pytest.mark.parametrize("state", UNSTARTED)
async def test_a_job_that_does_not_run_is_cancelled_at_once(
    store: Store, state: State
) -> None:
    job_id = await job_in(store, state)

    assert await cancel(store, job_id, reason="changed my mind") == Reply(Result.DONE)

    job = await get_one(store, job_id)
    assert (job.state, job.ended_at, job.attempts) == (State.CANCELLED, T0, 0)
    [line] = job.history
    assert (line.token, line.outcome) == ("", "cancelled")
    assert (line.reason, line.error, line.at) == ("changed my mind", None, T0)
    assert await count_of(store) == {State.CANCELLED: 1}


@pytest.mark.parametrize("state", UNSTARTED)
async def test_a_cancelled_job_never_starts(store: Store, state: State) -> None:
    job_id = await job_in(store, state)
    await cancel(store, job_id)

    await tend(store, T0 + HOUR)
    assert await claim_ids(store, now=T0 + 2 * HOUR) == []


async def test_a_running_job_is_asked_to_end(store: Store) -> None:
    job = await start_one(store)

    assert await cancel(store, job.id, reason="enough") == Reply(Result.ASKED)

    asked = await get_one(store, job.id)
    assert (asked.state, asked.cancelling, asked.token) == (
        State.ACTIVE,
        True,
        job.token,
    )
    assert (await store.renew(RenewRequest("w1", runs=[job]), now=T0)).cancel == {
        job.id: "enough"
    }


async def test_a_run_that_was_asked_ends_as_cancelled(store: Store) -> None:
    job = await start_one(store)
    await cancel(store, job.id)

    assert await end(store, job, Cancelled("asked to")) is Result.DONE

    ended = await get_one(store, job.id)
    assert (ended.state, ended.cancelling) == (State.CANCELLED, False)
    assert ended.history[-1].reason == "asked to"


async def test_a_run_that_ends_well_first_has_ended_well(store: Store) -> None:
    job = await start_one(store)
    await cancel(store, job.id)

    assert await end(store, job, Completed("in time")) is Result.DONE

    ended = await get_one(store, job.id)
    assert (ended.state, ended.result) == (State.COMPLETE, "in time")
    assert not ended.cancelling


@pytest.mark.parametrize(
    "ending",
    [Retried(OOPS), Retried(OOPS, HOUR), Released(), Stalled(OOPS)],
    ids=["retry", "retry later", "release", "stalled"],
)
async def test_a_run_that_was_asked_to_end_is_not_put_back_in_line(
    store: Store, ending: Ending
) -> None:
    """It did not end well first: what was asked for stands."""
    job = await start_one(store, attempts=5)
    await cancel(store, job.id, reason="not wanted")

    assert await end(store, job, ending) is Result.DONE

    ended = await get_one(store, job.id)
    assert ended.state is State.CANCELLED
    assert ended.history[-1].reason == "cancelled while it ran: not wanted"
    assert await claim_ids(store, now=T0 + 2 * HOUR) == []


async def test_a_run_that_was_asked_without_a_reason_ends_for_none(
    store: Store,
) -> None:
    job = await start_one(store, attempts=5)
    await cancel(store, job.id)

    await end(store, job, Retried(OOPS))

    ended = await get_one(store, job.id)
    assert (ended.state, ended.error) == (State.CANCELLED, None)
    assert ended.history[-1].reason == "cancelled while it ran"


async def test_cancelling_twice_is_cancelling_once(store: Store) -> None:
    job_id = await add_one(store)
    await cancel(store, job_id, reason="first")
    before = await get_one(store, job_id)

    assert await cancel(store, job_id, reason="second") == Reply(Result.ALREADY)

    assert await get_one(store, job_id) == before


async def test_asking_twice_is_asking_once(store: Store) -> None:
    job = await start_one(store)
    await cancel(store, job.id)

    assert await cancel(store, job.id) == Reply(Result.ALREADY)


async def test_a_job_a_run_ended_as_cancelled_is_cancelled_already(
    store: Store,
) -> None:
    job_id = await job_in(store, State.CANCELLED)

    assert await cancel(store, job_id) == Reply(Result.ALREADY)


@pytest.mark.parametrize("state", [State.COMPLETE, State.FAILED])
async def test_what_has_ended_cannot_be_cancelled(store: Store, state: State) -> None:
    job_id = await job_in(store, state)
    before = await get_one(store, job_id)

    assert await cancel(store, job_id) == Reply(Result.REFUSED, state=state)

    assert await get_one(store, job_id) == before


async def test_a_job_that_is_gone_cannot_be_cancelled(store: Store) -> None:
    assert await cancel(store, 987_654) == Reply(Result.GONE)


async def test_being_asked_does_not_outlive_the_run(store: Store) -> None:
    """A restarted job has not been asked anything."""
    job = await start_one(store)
    await cancel(store, job.id)
    await end(store, job, Cancelled())
    await store.move(MoveRequest([job.id], State.WAITING), now=T0)

    again = await claim_one(store)

    assert not again.cancelling
    assert (await store.renew(RenewRequest("w1", runs=[again]), now=T0)).cancel == {}


async def test_a_worker_that_never_hears_of_it_cannot_stop_it(store: Store) -> None:
    job = await start_one(store, attempts=5)
    await cancel(store, job.id)
    await lose_worker(store, T0)

    assert await state_of(store, job.id) is State.CANCELLED
    assert await claim_ids(store, now=T0 + 20 * SECOND) == []


async def test_many_are_cancelled_in_one_call_each_with_its_own_answer(
    store: Store,
) -> None:
    waiting = await job_in(store, State.WAITING, "email")
    running = await job_in(store, State.ACTIVE, "sms")
    complete = await job_in(store, State.COMPLETE, "video")
    cancelled = await job_in(store, State.CANCELLED, "report")

    replies = await store.cancel(
        [complete, running, 987_654, cancelled, waiting], now=T0
    )

    assert replies == [
        Reply(Result.REFUSED, state=State.COMPLETE),
        Reply(Result.ASKED),
        Reply(Result.GONE),
        Reply(Result.ALREADY),
        Reply(Result.DONE),
    ]


async def test_a_full_batch_is_cancelled_and_no_more(store: Store) -> None:
    ids = await add_many(store, MAX_BATCH)

    with pytest.raises(ValueError, match="at most 500"):
        await store.cancel([*ids, ids[0]], now=T0)
    assert await count_of(store) == {State.WAITING: MAX_BATCH}

    replies = await store.cancel(ids, now=T0)
    assert replies == [Reply(Result.DONE)] * MAX_BATCH
    assert await count_of(store) == {State.CANCELLED: MAX_BATCH}
