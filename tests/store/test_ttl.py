"""`Store.tend` and ttl: a run without a sign of life ends, though its worker lives."""

from __future__ import annotations

from kue.model import retry_policy
from kue.model.job import Completed, State
from kue.store.contract import Store
from kue.store.values import MaintenanceResult, Progress, RenewRequest, Result
from tests.support.jobs import (
    SECOND,
    T0,
    add_one,
    claim_one,
    end,
    get_one,
    start_one,
    state_of,
)
from tests.support.upkeep import STEP_MS, tend, together


async def live(store: Store, since: int, until: int) -> MaintenanceResult:
    """Let time pass while the worker beats."""
    done = MaintenanceResult()
    for now in [*range(since, until, STEP_MS), until]:
        await store.renew(RenewRequest("w1"), now=now)
        done = together(done, await tend(store, now))
    return done


async def test_a_silent_run_is_ended_and_the_job_tried_again(store: Store) -> None:
    """D-5: the ttl is a deadline; past it the attempt has failed."""
    job = await start_one(store, ttl="20s", attempts=2)

    tended = await live(store, T0, T0 + 20 * SECOND + 1)

    assert (tended.timed_out, tended.rescued) == (1, 0)
    back = await get_one(store, job.id)
    assert (back.state, back.attempts, back.stalls) == (State.WAITING, 1, 0)
    assert back.error == retry_policy.TTL_EXCEEDED
    assert [(line.outcome, line.taken) for line in back.history] == [("retry", "ttl")]


async def test_a_silent_run_is_left_alone_until_its_ttl_has_passed(
    store: Store,
) -> None:
    job = await start_one(store, ttl="20s")

    assert not await live(store, T0, T0 + 20 * SECOND - 1)
    assert await state_of(store, job.id) is State.ACTIVE


async def test_a_silent_last_attempt_fails_the_job(store: Store) -> None:
    job = await start_one(store, ttl="2s", attempts=1)

    await live(store, T0, T0 + 2 * SECOND + 1)

    failed = await get_one(store, job.id)
    assert (failed.state, failed.error) == (State.FAILED, retry_policy.TTL_EXCEEDED)
    assert failed.attempts == 1


async def test_a_retry_after_the_ttl_waits_as_the_backoff_says(store: Store) -> None:
    job = await start_one(store, ttl="2s", attempts=3, backoff="30s")
    now = T0 + 2 * SECOND + 1
    await live(store, T0, now)

    delayed = await get_one(store, job.id)
    assert (delayed.state, delayed.promote_at) == (State.DELAYED, now + 30 * SECOND)


async def test_progress_is_a_sign_of_life(store: Store) -> None:
    """D-5: it starts the ttl anew, each time."""
    job = await start_one(store, ttl="3s")
    now = T0
    for percent in (10, 20, 30):
        assert not await live(store, now, now + 3 * SECOND - 1)
        now += 3 * SECOND - 1
        await store.progress([Progress(job.id, percent, token=job.token)], now=now)

    assert not await live(store, now, now + 3 * SECOND - 1)
    assert (await live(store, now, now + 3 * SECOND + 1)).timed_out == 1


async def test_a_beat_is_no_sign_of_life_of_the_job(store: Store) -> None:
    """The worker lives; that says nothing about a handler that hangs."""
    job = await start_one(store, ttl="2s")
    for now in range(T0, T0 + 3 * SECOND, 500):
        await store.renew(RenewRequest("w1", runs=[job]), now=now)

    assert (await live(store, T0, T0 + 3 * SECOND)).timed_out == 1


async def test_each_run_has_a_ttl_of_its_own(store: Store) -> None:
    job = await start_one(store, ttl="3s", attempts=3)
    await live(store, T0, T0 + 3 * SECOND + 1)
    again = await claim_one(store, now=T0 + 4 * SECOND)

    assert not await live(store, T0 + 4 * SECOND, T0 + 7 * SECOND - 1)
    assert (await live(store, T0 + 7 * SECOND, T0 + 7 * SECOND + 1)).timed_out == 1
    assert (again.id, again.attempts) == (job.id, 2)


async def test_a_run_that_ended_has_no_ttl_any_more(store: Store) -> None:
    job = await start_one(store, ttl="2s")
    await end(store, job, Completed())

    assert not await live(store, T0, T0 + 5 * SECOND)


async def test_a_late_finish_is_fine_until_someone_noticed(store: Store) -> None:
    job = await start_one(store, ttl="2s")

    assert await end(store, job, Completed(), now=T0 + 5 * SECOND) is Result.DONE


async def test_a_silent_run_that_was_asked_to_end_is_cancelled(store: Store) -> None:
    job = await start_one(store, ttl="2s", attempts=5)
    await store.cancel([job.id], now=T0)

    tended = await live(store, T0, T0 + 2 * SECOND + 1)

    assert tended.timed_out == 1
    assert await state_of(store, job.id) is State.CANCELLED


async def test_a_job_waits_as_long_as_it_must_before_its_ttl_counts(
    store: Store,
) -> None:
    await add_one(store, ttl="2s")
    late = T0 + 60 * SECOND
    job = await claim_one(store, now=late)

    assert not await live(store, late, late + SECOND)
    assert await state_of(store, job.id) is State.ACTIVE


async def test_a_silent_run_of_a_lost_worker_is_ended_once(store: Store) -> None:
    """K-3: overdue in two ways, it is still one run with one ending."""
    job = await start_one(store, ttl="2s", attempts=5)
    await tend(store, T0)
    await store.leave("w1", now=T0)

    tended = await tend(store, T0 + 3 * SECOND)

    assert tended.rescued + tended.timed_out == 1
    assert len((await get_one(store, job.id)).history) == 1
