"""`Store.stand_by`: waiting and claiming in one, by the engine's own clock."""

from __future__ import annotations

import asyncio

import pytest

from kue.model.job import State
from kue.store.contract import Store
from kue.store.values import (
    Claim,
    Claimed,
    ClaimRequest,
    Limits,
    PauseRequest,
    RemoveRequest,
)
from tests.store.test_wait import SLEEP_SECONDS, add_now
from tests.support.jobs import get_one, state_of
from tests.support.patience import PATIENCE_SECONDS

TYPES = ("email", "sms", "video")
CLAIM = Claim("watch", 1)


async def stand_by(
    store: Store,
    *types: str,
    limit: int = 3,
    claim: Claim = CLAIM,
    seconds: float = SLEEP_SECONDS,
) -> Claimed:
    """Do as a worker does: again and again, until there are jobs or time is up."""
    ends = asyncio.get_running_loop().time() + seconds
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            left = ends - asyncio.get_running_loop().time()
            claimed = await store.stand_by(
                ClaimRequest(types or TYPES, limit, worker="w1", claim=claim),
                timeout=max(left, 0),
            )
            if claimed.jobs or left <= 0:
                return claimed
            claim = Claim(claim.lane, claim.seq + 1)


async def void(store: Store, claim: Claim = CLAIM) -> Claimed:
    return await store.claim(ClaimRequest(TYPES, 0, worker="w1", claim=claim))


@pytest.mark.parametrize("type", TYPES)
async def test_a_job_that_is_added_is_taken(store: Store, type: str) -> None:
    async with asyncio.TaskGroup() as tasks:
        standing = tasks.create_task(stand_by(store))
        await store.now()
        job_id = await add_now(store, type)

    [job] = standing.result().jobs
    assert (job.id, job.type, job.attempts) == (job_id, type, 1)
    kept = await get_one(store, job_id)
    assert (kept.state, kept.token, kept.worker) == (State.ACTIVE, job.token, "w1")


async def test_a_job_that_is_added_elsewhere_is_taken(
    store: Store, other_store: Store
) -> None:
    async with asyncio.TaskGroup() as tasks:
        standing = tasks.create_task(stand_by(store))
        await store.now()
        job_id = await add_now(other_store, "sms")

    assert [job.id for job in standing.result().jobs] == [job_id]


async def test_with_nothing_to_do_it_ends_in_time(store: Store) -> None:
    assert (await stand_by(store, seconds=0.05)).jobs == []


async def test_no_more_is_taken_than_asked_for(store: Store) -> None:
    ids = [await add_now(store) for _ in range(5)]

    claimed = await stand_by(store, limit=2)

    assert [job.id for job in claimed.jobs] == ids[:2]


async def test_only_types_asked_for_are_taken(store: Store) -> None:
    other = await add_now(store, "video")

    assert (await stand_by(store, "email", "sms", seconds=0.05)).jobs == []
    assert await state_of(store, other) is State.WAITING


async def test_a_job_is_taken_when_it_is_due(store: Store) -> None:
    """Whoever knows when, as a claim told it, stands by until then."""
    job_id = await add_now(store, delay=0.3)
    first = await store.claim(
        ClaimRequest(TYPES, 3, worker="w1", claim=Claim("watch", 1))
    )
    assert first.next_at is not None

    claimed = await stand_by(
        store, claim=Claim("watch", 2), seconds=(first.next_at - first.now) / 1000
    )

    [job] = claimed.jobs
    assert job.id == job_id
    assert job.started_at is not None
    assert job.started_at >= job.created_at + 300


async def test_pauses_and_limits_hold(store: Store) -> None:
    await store.pause(PauseRequest("email"))
    await store.limit("sms", Limits(concurrency=1))
    for type in ("email", "sms", "sms"):
        await add_now(store, type)

    assert [job.type for job in (await stand_by(store)).jobs] == ["sms"]


async def test_what_a_call_got_that_was_given_up_is_told(store: Store) -> None:
    """D-41: its answer was lost; the same claim with a limit of 0 has it."""
    job_id = await add_now(store)
    claimed = await store.stand_by(
        ClaimRequest(TYPES, 3, worker="w1", claim=CLAIM), timeout=5
    )
    assert [job.id for job in claimed.jobs] == [job_id]
    await add_now(store)

    assert (await void(store)).jobs == claimed.jobs


async def test_a_call_that_was_given_up_gets_nothing_later(store: Store) -> None:
    assert (await void(store)).jobs == []
    job_id = await add_now(store)

    assert (await stand_by(store, seconds=0)).jobs == []
    assert await state_of(store, job_id) is State.WAITING


async def test_a_call_can_be_given_up_at_any_time(store: Store) -> None:
    for seq in range(1, 20):
        claim = Claim("watch", seq)
        call = store.stand_by(
            ClaimRequest(TYPES, 3, worker="w1", claim=claim), timeout=SLEEP_SECONDS
        )
        standing = asyncio.create_task(call)
        if seq % 2:
            await store.now()
        adding = asyncio.create_task(add_now(store))
        for _ in range(seq):
            await asyncio.sleep(0)
        standing.cancel()
        await asyncio.wait([standing], timeout=PATIENCE_SECONDS)
        job_id = await adding

        got = (await void(store, claim)).jobs

        state = await state_of(store, job_id)
        assert state is (State.ACTIVE if got else State.WAITING)
        await store.remove(RemoveRequest([job_id], force=True))
