"""The progress of a job that ended: what its last run had reached is kept."""

from __future__ import annotations

from kue.model.job import (
    MAX_PAST_DATA,
    Cancelled,
    Completed,
    Failed,
    Reached,
    Retried,
    State,
    with_progress,
)
from kue.store.contract import Store
from kue.store.values import MoveRequest, Progress
from tests.support.jobs import OOPS, SECOND, T0, end, get_one, start_one
from tests.support.upkeep import lose_worker, tend

STEP = {"step": 4}


async def test_a_failed_job_shows_how_far_it_came(store: Store) -> None:
    job = await start_one(store)
    await end(store, job, with_progress(Failed(OOPS), 40, STEP))

    failed = await get_one(store, job.id)
    assert (failed.progress, failed.progress_data) == (40, STEP)
    assert failed.error == OOPS
    assert failed.fingerprint == (await store.errors()).groups[0].fingerprint


async def test_a_cancelled_job_shows_how_far_it_came(store: Store) -> None:
    job = await start_one(store)
    await end(store, job, with_progress(Cancelled("enough"), 70, None))

    assert (await get_one(store, job.id)).progress == 70


async def test_a_complete_job_keeps_its_last_data(store: Store) -> None:
    job = await start_one(store)
    await end(store, job, with_progress(Completed("done"), 90, STEP))

    done = await get_one(store, job.id)
    assert (done.progress, done.progress_data, done.result) == (100, STEP, "done")


async def test_a_run_that_maintenance_fails_shows_how_far_it_came(
    store: Store,
) -> None:
    job = await start_one(store, delivery="at-most-once")
    await store.progress([Progress(job.id, 40, STEP, job.token)], now=T0)
    await lose_worker(store, T0)

    failed = await get_one(store, job.id)
    assert (failed.state, failed.progress) == (State.FAILED, 40)
    assert failed.progress_data == STEP


async def test_a_job_that_runs_again_begins_at_zero(store: Store) -> None:
    job = await start_one(store)
    await end(store, job, with_progress(Failed(OOPS), 40, STEP))
    await store.move(MoveRequest([job.id], State.WAITING), now=T0)

    again = await get_one(store, job.id)
    assert (again.progress, again.progress_data) == (0, None)
    assert again.history[0].progress == Reached(40, STEP)


async def test_an_attempt_that_is_retried_keeps_only_little_data() -> None:
    long = "x" * MAX_PAST_DATA
    assert with_progress(Retried(OOPS), 5, long).progress == Reached(5, None)
    assert with_progress(Failed(OOPS), 5, long).progress != Reached(5, None)


async def test_runs_that_maintenance_ends_leave_their_error_in_the_log(
    store: Store,
) -> None:
    lost = await start_one(store, worker="w9")
    await lose_worker(store, T0)
    silent = await start_one(store, "sms", ttl="5s", now=T0 + 20 * SECOND)
    await tend(store, T0 + 26 * SECOND)

    [line] = await store.logs(lost.id)
    assert (line.level, line.attempt) == ("error", 1)
    assert line.text == "WorkerLost: worker w9 was lost while it ran this job"
    [line] = await store.logs(silent.id)
    assert line.text == "TTLExceeded: TTL exceeded"
