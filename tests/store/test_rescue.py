"""`Store.tend` and lost workers: their runs are taken back, and handed on in time."""

from __future__ import annotations

import pytest

from kue.model import retry_policy
from kue.model.job import Completed, Retried, State
from kue.store.contract import Store
from kue.store.values import RenewRequest, Result
from tests.support.jobs import (
    OOPS,
    SECOND,
    T0,
    add_many,
    add_one,
    claim,
    claim_ids,
    claim_one,
    count_of,
    end,
    get_one,
    start_one,
    state_of,
)
from tests.support.upkeep import lose_worker, pass_time, tend

LEASE = 10 * SECOND


async def lose(store: Store, job_id: int, now: int) -> int:
    """Have a worker lost with the job in hand; return the time by then."""
    job = await get_one(store, job_id)
    start = max(now, job.promote_at or 0)
    job = await claim_one(store, now=start)
    assert job.id == job_id
    if retry_policy.runs_alone(job):
        assert await store.begin(job, alone=True, now=start) is not Result.LOST
    await lose_worker(store, start)
    return start + LEASE + 1


async def test_a_run_of_a_lost_worker_is_taken_back(store: Store) -> None:
    """D-4: no job stays active when its worker has died."""
    job = await start_one(store, worker="w7")

    tended = await lose_worker(store, T0)

    assert tended.rescued == 1
    back = await get_one(store, job.id)
    assert (back.state, back.attempts, back.stalls) == (State.WAITING, 0, 1)
    [line] = back.history
    assert (line.outcome, line.token, line.delay) == ("stalled", job.token, 0)
    assert line.taken == "lease"
    assert line.error is not None
    assert line.error.kind == "WorkerLost"
    assert "w7" in line.error.message
    assert back.worker == "w7"


async def test_a_run_is_not_taken_back_before_its_lease_is_over(store: Store) -> None:
    job = await start_one(store)

    tended = await pass_time(store, T0, T0 + LEASE - 1)

    assert not tended
    assert await state_of(store, job.id) is State.ACTIVE


async def test_a_lease_is_as_long_as_the_worker_asked(store: Store) -> None:
    await add_one(store)
    await claim_one(store, lease=2 * SECOND)

    assert (await pass_time(store, T0, T0 + 2 * SECOND - 1)).rescued == 0
    assert (await tend(store, T0 + 2 * SECOND + 1)).rescued == 1


async def test_the_first_loss_is_repeated_at_once_the_next_ones_after_a_pause(
    store: Store,
) -> None:
    """Most losses are deploys; a job that kills its workers must not keep doing it."""
    job_id = await add_one(store)

    now = await lose(store, job_id, T0)
    assert await state_of(store, job_id) is State.WAITING

    for stalls in (2, 3):
        pause = retry_policy.stall_delay_ms(job_id, stalls - 1)
        now = await lose(store, job_id, now)
        job = await get_one(store, job_id)
        assert (job.state, job.stalls) == (State.DELAYED, stalls)
        assert job.promote_at is not None
        assert job.promote_at == job.history[-1].at + pause


async def test_a_job_that_keeps_losing_workers_is_failed(store: Store) -> None:
    job_id = await add_one(store, attempts=100)
    now = T0
    for _ in range(retry_policy.MAX_STALLS):
        now = await lose(store, job_id, now)
    assert await state_of(store, job_id) is State.DELAYED

    await lose(store, job_id, now)

    job = await get_one(store, job_id)
    assert job.state is State.FAILED
    assert job.error is not None
    assert job.error.kind == "WorkerLost"
    assert [line.outcome for line in job.history] == ["stalled"] * 3 + ["failed"]


@pytest.mark.parametrize("most", [0, 1])
async def test_a_job_survives_as_many_losses_as_it_says(
    store: Store, most: int
) -> None:
    job_id = await add_one(store, attempts=100, max_stalls=most)
    now = T0
    for _ in range(most):
        now = await lose(store, job_id, now)
    assert await state_of(store, job_id) is State.WAITING

    await lose(store, job_id, now)

    assert await state_of(store, job_id) is State.FAILED


async def test_a_loss_costs_no_attempt(store: Store) -> None:
    """A deploy by kill -9 does not fail a job that has a single attempt."""
    job_id = await add_one(store, attempts=1)
    now = await lose(store, job_id, T0)

    job = await claim_one(store, now=now)

    assert (job.attempts, job.max_attempts, job.stalls) == (1, 1, 1)
    assert await end(store, job, Completed("at last"), now=now) is Result.DONE


async def test_failed_attempts_are_remembered_through_a_loss(store: Store) -> None:
    job = await start_one(store, attempts=5)
    await end(store, job, Retried(OOPS))
    await lose(store, job.id, T0)

    assert (await get_one(store, job.id)).attempts == 1


async def test_a_job_delivered_at_most_once_fails_with_its_worker(store: Store) -> None:
    job = await start_one(store, delivery="at-most-once", attempts=3)

    tended = await lose_worker(store, T0)

    assert tended.rescued == 1
    failed = await get_one(store, job.id)
    assert (failed.state, failed.attempts) == (State.FAILED, 1)
    assert failed.error is not None
    assert failed.error.kind == "WorkerLost"


async def test_a_run_asked_to_end_is_cancelled_when_its_worker_is_lost(
    store: Store,
) -> None:
    job = await start_one(store)
    await store.cancel([job.id], now=T0)

    tended = await lose_worker(store, T0)

    assert tended.rescued == 1
    cancelled = await get_one(store, job.id)
    assert (cancelled.state, cancelled.cancelling) == (State.CANCELLED, False)
    assert cancelled.history[-1].outcome == "cancelled"
    assert cancelled.history[-1].reason


async def test_a_beat_before_anyone_noticed_keeps_the_run(store: Store) -> None:
    job = await start_one(store)
    await pass_time(store, T0, T0 + LEASE - 1)
    await store.renew(RenewRequest("w1"), now=T0 + LEASE + 500)

    await tend(store, T0 + LEASE + 600)

    assert await end(store, job, Completed(), now=T0 + LEASE + 700) is Result.DONE


async def test_everything_a_lost_worker_had_is_taken_back(store: Store) -> None:
    for type in ("email", "sms", "video"):
        await add_many(store, 40, type)
    await claim(store, "email", "sms", "video", limit=120, worker="lost")
    other = await start_one(store, "report", worker="alive")

    for now in range(T0, T0 + LEASE + 2, 3334):
        await store.renew(RenewRequest("alive"), now=now)
        await tend(store, now)
    await tend(store, T0 + LEASE + 2)

    for type in ("email", "sms", "video"):
        assert await count_of(store, type) == {State.WAITING: 40}
    assert await state_of(store, other.id) is State.ACTIVE


async def test_a_pass_takes_back_no_more_than_its_limit(store: Store) -> None:
    await add_many(store, 25)
    await claim(store, limit=25)
    await tend(store, T0)
    await store.leave("w1", now=T0)

    tended = await store.tend(limit=10, now=T0 + SECOND)

    assert 0 < tended.rescued <= 10
    assert tended.more
    assert (await tend(store, T0 + SECOND, limit=10)).rescued == 25 - tended.rescued


async def test_jobs_taken_back_keep_their_place_in_line(store: Store) -> None:
    ids = await add_many(store, 5)
    await claim(store, limit=3)
    await lose_worker(store, T0)

    assert await claim_ids(store, now=T0 + 11 * SECOND) == ids


@pytest.mark.parametrize("beats", [1, 5])
async def test_a_worker_that_beats_is_never_robbed(store: Store, beats: int) -> None:
    job = await start_one(store)
    now = T0
    for _ in range(beats):
        await pass_time(store, now, now + LEASE - 1)
        now += LEASE - 1
        await store.renew(RenewRequest("w1"), now=now)

    assert (await get_one(store, job.id)).token == job.token
