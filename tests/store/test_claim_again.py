"""`Store.claim` repeated, and by many at once: no job is in two hands."""

from __future__ import annotations

import asyncio

from kue.model.job import Completed, Job, Retried, State
from kue.store.contract import Store
from kue.store.values import (
    Claim,
    ClaimRequest,
    Outcome,
    PageRequest,
    RemoveRequest,
    Result,
)
from tests.support.jobs import (
    OOPS,
    SECOND,
    T0,
    add_many,
    add_one,
    claim_one,
    count_of,
    end,
)
from tests.support.upkeep import lose_worker

TYPES = ["email", "sms", "video"]


async def ask(
    store: Store, seq: int, *, lane: str = "lane", limit: int = 3, now: int = T0
) -> list[Job]:
    claimed = await store.claim(
        ClaimRequest(TYPES, limit, worker="w1", claim=Claim(lane, seq)), now=now
    )
    return claimed.jobs


async def test_the_same_claim_again_answers_with_the_same_jobs(store: Store) -> None:
    """K-1: a reply that was lost loses no job."""
    for type in TYPES:
        await add_many(store, 3, type)
    first = await ask(store, 1, limit=6)

    again = await ask(store, 1, limit=6, now=T0 + 5)

    assert sorted(again, key=lambda job: job.id) == sorted(
        first, key=lambda job: job.id
    )
    assert len(first) == 6
    assert len((await store.page(PageRequest(State.WAITING))).jobs) == 3


async def test_a_repeat_takes_nothing_that_came_since(store: Store) -> None:
    first = await ask(store, 1)
    await add_many(store, 3)

    assert first == []
    assert await ask(store, 1) == []
    assert len(await ask(store, 2)) == 3


async def test_a_repeat_leaves_out_what_has_ended(store: Store) -> None:
    await add_many(store, 3, attempts=5)
    done, retried, running = await ask(store, 1)
    await end(store, done, Completed())
    await end(store, retried, Retried(OOPS))

    assert await ask(store, 1) == [running]


async def test_a_repeat_leaves_out_what_was_removed(store: Store) -> None:
    await add_many(store, 2)
    gone, running = await ask(store, 1)
    await store.remove(RemoveRequest([gone.id], force=True), now=T0)

    assert await ask(store, 1) == [running]


async def test_a_repeat_leaves_out_what_was_taken_back(store: Store) -> None:
    await add_one(store)
    await ask(store, 1)
    await lose_worker(store, T0)

    assert await ask(store, 1, now=T0 + 20 * SECOND) == []


async def test_a_repeat_leaves_out_what_another_runs_by_now(store: Store) -> None:
    """The job runs, but it is not this claim's any more."""
    await add_one(store)
    await ask(store, 1)
    await lose_worker(store, T0)
    await claim_one(store, worker="w2", now=T0 + 20 * SECOND)

    assert await ask(store, 1, now=T0 + 20 * SECOND) == []


async def test_an_older_claim_of_a_lane_answers_with_nothing(store: Store) -> None:
    await add_many(store, 9)
    await ask(store, 1)
    await ask(store, 2)

    assert await ask(store, 1) == []
    assert await count_of(store) == {State.ACTIVE: 6, State.WAITING: 3}


async def test_lanes_do_not_know_of_each_other(store: Store) -> None:
    await add_many(store, 6)
    one = await ask(store, 5, lane="one")
    other = await ask(store, 1, lane="other")

    assert not {job.id for job in one} & {job.id for job in other}
    assert await ask(store, 5, lane="one") == one
    assert await ask(store, 1, lane="other") == other


async def test_a_lane_goes_on_after_each_claim(store: Store) -> None:
    await add_many(store, 9)
    seen = [job.id for seq in (1, 2, 3, 4) for job in await ask(store, seq)]

    assert len(seen) == len(set(seen)) == 9


async def test_two_claims_in_flight_never_share_a_job(
    store: Store, other_store: Store
) -> None:
    """D-2: someone who comes too late gets nothing, and asks again."""
    await add_many(store, 50)

    holders = [store, other_store, store, other_store]

    taken = await asyncio.gather(
        *(ask(each, 1, lane=f"{n}", limit=10) for n, each in enumerate(holders))
    )

    ids = [job.id for jobs in taken for job in jobs]
    assert len(ids) == len(set(ids))
    assert await count_of(store) == {
        State.ACTIVE: len(ids),
        State.WAITING: 50 - len(ids),
    }


async def test_ten_claimers_drain_a_thousand_jobs_each_exactly_once(
    store: Store, other_store: Store
) -> None:
    ids = []
    for type in TYPES:
        ids += await add_many(store, 334, type)
    runs: list[int] = []

    async def work(number: int) -> None:
        holder = store if number % 2 else other_store
        seq = 1
        jobs = await ask(holder, seq, lane=f"lane {number}", limit=20)
        while jobs:
            runs.extend(job.id for job in jobs)
            words = await holder.settle(
                [Outcome(job, Completed()) for job in jobs], now=T0
            )
            assert set(words) == {Result.DONE}
            seq += 1
            jobs = await ask(holder, seq, lane=f"lane {number}", limit=20)

    await asyncio.gather(*(work(number) for number in range(10)))

    assert sorted(runs) == sorted(ids)
    for type in TYPES:
        assert await count_of(store, type) == {State.COMPLETE: 334}
