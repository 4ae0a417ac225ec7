"""`Store.begin`: runs that were held back, so that they run alone (R-12)."""

from __future__ import annotations

from typing import Any

import pytest

from kue.model.job import Completed, Job, State
from kue.model.retry_policy import MAX_STALLS
from kue.store.contract import Store
from kue.store.values import Outcome, PauseRequest, RemoveRequest, RenewRequest, Result
from tests.support.jobs import SECOND, T0, claim_one, end, get_one, start_one
from tests.support.upkeep import lose_worker, pass_time, tend

LEASE = 10 * SECOND


async def suspect(store: Store, stalls: int = 2, **options: Any) -> Job:
    """Claim a job that has lost *stalls* workers; return it as it was claimed."""
    job = await start_one(store, **options)
    now = T0
    for _ in range(stalls):
        if job.stalls >= 2:
            await begin(store, job, now)
        await lose_worker(store, now)
        now = (await get_one(store, job.id)).promote_at or now + LEASE + 1
        job = await claim_one(store, now=now)
    assert job.stalls == stalls
    return job


async def begin(store: Store, job: Job, now: int, *, alone: bool = True) -> Job:
    began = await store.begin(job, alone=alone, now=now)
    assert not isinstance(began, Result)
    return began


@pytest.mark.parametrize(("alone", "mark"), [(True, "alone"), (False, "beside")])
async def test_a_run_begins_when_it_says_so(
    store: Store, alone: bool, mark: str
) -> None:
    job = await suspect(store)
    later = job.updated_at + SECOND

    began = await begin(store, job, later, alone=alone)

    assert began.run is not None
    assert (began.run.began, began.run.started_at) == (mark, later)
    assert (began.fence, began.attempts) == (job.fence, job.attempts)
    assert await get_one(store, job.id) == began
    assert await end(store, began, Completed(), now=later) is Result.DONE


async def test_the_token_of_before_can_no_longer_end_the_run(store: Store) -> None:
    job = await suspect(store)
    began = await begin(store, job, job.updated_at + SECOND)

    word = await end(store, job, Completed(), now=job.updated_at + SECOND)

    assert word is Result.LOST
    assert (await get_one(store, job.id)).token == began.token


async def test_a_run_can_begin_twice_and_is_the_same(store: Store) -> None:
    """The first answer may have been lost."""
    job = await suspect(store)
    now = job.updated_at
    await begin(store, job, now)

    again = await begin(store, job, now + SECOND)

    assert await store.settle([Outcome(again, Completed())], now=now) == [Result.DONE]


async def test_a_run_that_was_taken_back_cannot_begin(store: Store) -> None:
    job = await suspect(store)
    await lose_worker(store, job.updated_at)
    now = job.updated_at + LEASE + SECOND
    other = await claim_one(store, worker="w2", now=now)

    assert await store.begin(job, alone=True, now=now) is Result.LOST
    assert (await get_one(store, job.id)).token == other.token
    await store.remove(RemoveRequest([job.id], force=True), now=now)
    assert await store.begin(other, alone=True, now=now) is Result.LOST


@pytest.mark.parametrize("type", ["email", None])
async def test_a_run_does_not_begin_while_its_type_is_paused(
    store: Store, type: str | None
) -> None:
    job = await suspect(store)
    now = job.updated_at
    await store.pause(PauseRequest(type), now=now)

    assert await store.begin(job, alone=True, now=now) is Result.REFUSED
    assert (await get_one(store, job.id)).token == job.token
    await store.resume(type, now=now)
    await begin(store, job, now)


async def test_a_run_that_has_begun_goes_on_when_its_type_is_paused(
    store: Store,
) -> None:
    """The first answer may have been lost."""
    job = await suspect(store)
    now = job.updated_at
    await begin(store, job, now)
    await store.pause(PauseRequest("email"), now=now)

    again = await begin(store, job, now)

    assert (await get_one(store, job.id)).token == again.token


@pytest.mark.parametrize("stalls", [2, MAX_STALLS])
async def test_losing_its_worker_before_it_began_costs_a_job_nothing(
    store: Store, stalls: int
) -> None:
    job = await suspect(store, stalls)

    tended = await lose_worker(store, job.updated_at)

    assert tended.rescued == 1
    back = await get_one(store, job.id)
    assert (back.state, back.stalls, back.attempts) == (State.WAITING, stalls, 0)
    assert back.history[-1].outcome == "released"


async def test_a_loss_in_company_is_not_the_last(store: Store) -> None:
    job = await suspect(store, MAX_STALLS)
    await store.begin(job, alone=False, now=job.updated_at)

    await lose_worker(store, job.updated_at)

    back = await get_one(store, job.id)
    assert (back.state, back.stalls) == (State.DELAYED, MAX_STALLS + 1)


async def test_a_loss_alone_is_the_last(store: Store) -> None:
    job = await suspect(store, MAX_STALLS)
    await store.begin(job, alone=True, now=job.updated_at)

    await lose_worker(store, job.updated_at)

    assert (await get_one(store, job.id)).state is State.FAILED


async def test_the_ttl_of_a_run_starts_when_it_begins(store: Store) -> None:
    job = await suspect(store, ttl="30s")
    claimed_at = job.updated_at
    began_at = claimed_at + 20 * SECOND
    await store.renew(RenewRequest("w1", lease=600 * SECOND), now=claimed_at)
    began = await begin(store, job, began_at)

    await pass_time(store, claimed_at, began_at + 29 * SECOND)
    assert (await get_one(store, job.id)).token == began.token

    assert (await tend(store, began_at + 31 * SECOND)).timed_out == 1
