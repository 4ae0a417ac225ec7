"""`Store.cycle`: settle, then claim, in one call."""

from __future__ import annotations

import pytest

from kue.model.job import Completed, Job, Released, Retried, State
from kue.store.contract import Store
from kue.store.values import (
    MAX_BATCH,
    Claim,
    Claimed,
    ClaimRequest,
    Limits,
    Outcome,
    RemoveRequest,
    Result,
)
from tests.support.jobs import (
    MINUTE,
    OOPS,
    T0,
    add_many,
    add_one,
    claim,
    count_of,
    get_one,
    start_one,
    state_of,
)

TYPES = ["email", "sms", "video"]


async def turn(
    store: Store,
    runs: list[Job],
    seq: int,
    *,
    limit: int = 10,
    now: int = T0,
) -> tuple[list[Result], Claimed]:
    """Complete *runs* and ask for more."""
    return await store.cycle(
        [Outcome(job, Completed()) for job in runs],
        ClaimRequest(TYPES, limit, worker="w1", claim=Claim("lane", seq)),
        now=now,
    )


async def test_a_cycle_ends_runs_and_starts_others(store: Store) -> None:
    for type in TYPES:
        await add_many(store, 2, type)
    first = await claim(store, *TYPES, limit=4)

    words, claimed = await turn(store, first, 1, now=T0 + 3)

    assert words == [Result.DONE] * 4
    assert len(claimed.jobs) == 2
    assert claimed.now == T0 + 3
    assert {job.state for job in await store.get([job.id for job in first]) if job} == {
        State.COMPLETE
    }
    assert all(job.state is State.ACTIVE for job in claimed.jobs)


async def test_a_cycle_without_outcomes_is_a_claim(store: Store) -> None:
    job_id = await add_one(store)

    words, claimed = await turn(store, [], 1)

    assert words == []
    assert [job.id for job in claimed.jobs] == [job_id]


async def test_a_cycle_with_no_room_is_a_settle(store: Store) -> None:
    job = await start_one(store)
    await add_one(store)

    words, claimed = await turn(store, [job], 1, limit=0)

    assert (words, claimed.jobs) == ([Result.DONE], [])
    assert await count_of(store) == {State.COMPLETE: 1, State.WAITING: 1}


async def test_what_a_cycle_puts_back_it_may_take_again(store: Store) -> None:
    job = await start_one(store, attempts=3)

    words, claimed = await store.cycle(
        [Outcome(job, Retried(OOPS))],
        ClaimRequest(["email"], 1, worker="w1", claim=Claim("lane", 1)),
        now=T0,
    )

    assert words == [Result.DONE]
    assert [(again.id, again.attempts) for again in claimed.jobs] == [(job.id, 2)]


async def test_a_slot_freed_by_a_cycle_is_filled_by_it(store: Store) -> None:
    await store.limit("email", Limits(concurrency=1), now=T0)
    ids = await add_many(store, 2)
    [job] = await claim(store)

    words, claimed = await turn(store, [job], 1)

    assert words == [Result.DONE]
    assert [next_.id for next_ in claimed.jobs] == [ids[1]]


async def test_a_repeated_cycle_answers_with_the_same_jobs(store: Store) -> None:
    """The reply was lost: what ended has ended, what was taken is still ours."""
    for type in TYPES:
        await add_many(store, 3, type)
    runs = await claim(store, *TYPES, limit=3)
    words, claimed = await turn(store, runs, 1, limit=3)

    words_again, claimed_again = await turn(store, runs, 1, limit=3, now=T0 + 1)

    assert words == [Result.DONE] * 3
    assert words_again == [Result.ALREADY] * 3
    assert sorted(job.token for job in claimed_again.jobs) == sorted(
        job.token for job in claimed.jobs
    )


async def test_a_cycle_older_than_the_last_of_its_lane_takes_nothing(
    store: Store,
) -> None:
    await add_many(store, 6)
    await turn(store, [], 1, limit=2)
    await turn(store, [], 2, limit=2)

    assert (await turn(store, [], 1, limit=2))[1].jobs == []
    assert (await count_of(store))[State.WAITING] == 2


async def test_words_come_in_the_order_asked_whatever_the_types(store: Store) -> None:
    runs = [await start_one(store, type) for type in TYPES]
    await store.remove(RemoveRequest([runs[1].id], force=True), now=T0)
    await turn(store, [runs[2]], 1)

    words, _ = await turn(store, runs, 2)

    assert words == [Result.DONE, Result.GONE, Result.ALREADY]


async def test_a_cycle_claims_though_all_it_ends_was_lost(store: Store) -> None:
    """One refused ending does not cost the worker its next job."""
    job = await start_one(store)
    await store.remove(RemoveRequest([job.id], force=True), now=T0)
    fresh = await add_one(store)

    words, claimed = await turn(store, [job], 1)

    assert words == [Result.GONE]
    assert [got.id for got in claimed.jobs] == [fresh]


async def test_a_cycle_tells_when_there_may_be_more(store: Store) -> None:
    job = await start_one(store)

    _, claimed = await store.cycle(
        [Outcome(job, Released(MINUTE))],
        ClaimRequest(["email"], 1, worker="w1", claim=Claim("lane", 1)),
        now=T0,
    )

    assert (claimed.jobs, claimed.next_at) == ([], T0 + MINUTE)


async def test_a_cycle_renews_the_workers_lease(store: Store) -> None:
    job = await start_one(store)
    await turn(store, [job], 1, now=T0 + 5000)

    [worker] = await store.workers(now=T0)
    assert worker.deadline == T0 + 15_000


async def test_more_than_a_batch_is_refused_whole(store: Store) -> None:
    job = await start_one(store)
    waiting = await add_one(store)

    with pytest.raises(ValueError, match="at most 500"):
        await turn(store, [job] * (MAX_BATCH + 1), 1)

    assert (await get_one(store, job.id)).token == job.token
    assert await state_of(store, waiting) is State.WAITING


async def test_a_limit_no_call_may_have_is_refused_whole(store: Store) -> None:
    job = await start_one(store)

    with pytest.raises(ValueError, match="limit"):
        await turn(store, [job], 1, limit=MAX_BATCH + 1)

    assert await state_of(store, job.id) is State.ACTIVE
