"""How often and until when jobs are retried: attempts, raised errors, time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Never

import pytest

from kue import ActiveJob, JobFailed, Kue, Retry, State
from kue.model.job import MAX_HISTORY, Failed, Retried
from tests.support.jobs import OOPS, claim_one, end
from tests.support.patience import eventually
from tests.worker.working import worked

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Busy(Retry):
    """Asks to be retried, under a name of its own."""


async def test_unlimited_attempts_end_with_the_one_that_succeeds(q: Kue) -> None:
    most = MAX_HISTORY + 5

    @q.task(attempts="unlimited", backoff=None)
    async def send(job: ActiveJob) -> int:
        if job.attempt < most:
            raise OSError("no route")
        return job.attempt

    assert await worked(q, await send.enqueue()) == most


async def test_a_job_with_unlimited_attempts_waits_for_the_next_one(q: Kue) -> None:
    last: list[bool] = []

    @q.task(attempts="unlimited", backoff="1h")
    async def send(job: ActiveJob) -> Never:
        last.append(job.is_last_attempt)
        raise OSError("no route")

    handle = await send.enqueue()
    async with q.work():
        await eventually(lambda: q.count(state="delayed"))

    job = await handle.refresh()
    assert (job.attempts, job.max_attempts, last) == (1, 0, [False])


@pytest.mark.parametrize("limit", [{"max_exceptions": 2}, {"retry_until": LONG_AGO}])
async def test_a_number_of_errors_or_a_time_limits_attempts_as_well(
    q: Kue, limit: Any
) -> None:
    @q.task(attempts="unlimited", backoff=None, **limit)
    async def send(job: ActiveJob) -> str:
        if job.attempt <= 2:
            raise OSError("no route")
        return "sent"

    with pytest.raises(JobFailed, match="OSError: no route"):
        await worked(q, await send.enqueue())


async def test_the_limit_of_attempts_can_be_lifted_and_set_again(q: Kue) -> None:
    handle = await q.enqueue("email", attempts=2)

    await handle.update(attempts="unlimited")
    assert (await handle.refresh()).max_attempts == 0
    await handle.update(attempts=5)
    assert (await handle.refresh()).max_attempts == 5


async def test_asking_to_be_retried_is_not_counted_as_an_error(q: Kue) -> None:
    story: list[tuple[int, bool]] = []

    @q.task(attempts=50, max_exceptions=2, backoff=None)
    async def send(job: ActiveJob) -> Never:
        story.append((job.attempt, job.is_last_attempt))
        if job.attempt % 2:
            raise Busy("come back")
        raise OSError(f"no route {job.attempt}")

    job = await send.enqueue()
    with pytest.raises(JobFailed, match="OSError: no route 4"):
        await worked(q, job)

    assert story == [(1, False), (2, False), (3, True), (4, True)]
    asked = [entry.asked for entry in (await job.refresh()).history]
    assert asked == [True, False, True, False]


async def test_errors_count_from_zero_when_a_job_is_retried_by_hand(q: Kue) -> None:
    runs: list[int] = []

    @q.task(attempts=50, max_exceptions=2, backoff=None)
    async def send(job: ActiveJob) -> Never:
        runs.append(job.attempt)
        raise OSError("no route")

    handle = await send.enqueue()
    for _ in range(2):
        with pytest.raises(JobFailed):
            await worked(q, handle)
        await handle.retry()

    assert runs == [1, 2, 1, 2]


async def test_after_the_last_moment_for_a_retry_the_next_failure_is_final(
    q: Kue,
) -> None:
    @q.task(attempts="unlimited", retry_until=LONG_AGO)
    async def send(job: ActiveJob) -> Never:
        assert job.is_last_attempt
        raise OSError("no route")

    job = await send.enqueue()
    with pytest.raises(JobFailed, match="OSError: no route"):
        await worked(q, job)

    assert (await job.refresh()).attempts == 1


async def test_a_retry_whose_turn_comes_too_late_fails_with_the_error_it_had(
    q: Kue,
) -> None:
    runs: list[int] = []

    @q.process("email")
    async def send(job: ActiveJob) -> None:
        runs.append(job.attempt)

    handle = await q.enqueue("email", attempts=9, retry_until=LONG_AGO)
    first = await claim_one(q.store, now=await q.now())
    await end(q.store, first, Retried(OOPS), now=await q.now())

    with pytest.raises(JobFailed, match="ValueError: oops"):
        await worked(q, handle)

    assert runs == []
    job = await handle.refresh()
    assert (job.state, job.error) == (State.FAILED, OOPS)


async def test_a_job_requeued_by_hand_has_one_attempt_after_the_last_moment(
    q: Kue,
) -> None:
    @q.process("email")
    async def send(job: ActiveJob) -> str:
        return "sent"

    handle = await q.enqueue("email", attempts=9, retry_until=LONG_AGO)
    first = await claim_one(q.store, now=await q.now())
    await end(q.store, first, Failed(OOPS), now=await q.now())
    await handle.refresh()
    await handle.retry()

    assert await worked(q, handle) == "sent"
