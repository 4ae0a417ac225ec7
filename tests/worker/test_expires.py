"""`expires`: a run that goes on when the life of its job is over is ended."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from kue import ActiveJob, JobFailed, Kue, State, Task
from kue.model.job import Job
from tests.support.patience import PATIENCE_SECONDS

#: Long enough for a run to begin, on a busy machine.
LIFE = 4.0
#: No matter of the store.
pytestmark = pytest.mark.parametrize("place", ["memory"], indirect=True)


async def expired(q: Kue, task: Task[[], Any, None]) -> Job:
    """Add a job to a worker that waits for it; return it, expired while it ran."""
    async with q.work():
        job = await task.enqueue()
        with pytest.raises(JobFailed, match="Expired: the job expired while it ran, 4"):
            await job.result(timeout=PATIENCE_SECONDS)
    seen = await job.refresh()
    assert seen.state is State.FAILED
    return seen


async def test_a_coroutine_is_cancelled_and_its_job_is_not_tried_again(q: Kue) -> None:
    tidied = 0

    @q.task(expires=LIFE, attempts=3, backoff=0)
    async def crawl() -> None:
        nonlocal tidied
        try:
            await asyncio.sleep(3 * LIFE)
        finally:
            tidied += 1

    job = await expired(q, crawl)

    assert (tidied, job.attempts) == (1, 1)
    assert job.error is not None
    assert "await asyncio.sleep(3 * LIFE)" in job.error.stack


async def test_a_plain_handler_is_interrupted_in_its_thread(q: Kue) -> None:
    tidied = threading.Event()

    @q.task(expires=LIFE, attempts=3)
    def crawl(job: ActiveJob) -> None:
        try:
            while True:
                # A call in C ends first.
                time.sleep(0.01)
        finally:
            assert job.should_stop
            tidied.set()

    assert (await expired(q, crawl)).attempts == 1
    assert tidied.is_set()


async def test_a_retry_has_only_the_rest_of_the_life(q: Kue) -> None:
    @q.task(expires=LIFE, attempts=3, backoff=0)
    async def crawl(job: ActiveJob) -> None:
        if job.attempt == 1:
            raise ConnectionError
        await asyncio.sleep(3600)

    assert (await expired(q, crawl)).attempts == 2


async def test_so_has_a_job_that_goes_on_after_a_sleep(q: Kue) -> None:
    @q.task(expires=LIFE)
    async def crawl(job: ActiveJob) -> None:
        await job.sleep("10ms")
        await asyncio.sleep(3600)

    job = await expired(q, crawl)

    assert job.releases == 1


async def test_failure_hooks_are_called(q: Kue) -> None:
    failures: list[str] = []

    @q.task(expires=LIFE, on_failure=lambda job, error: failures.append(error.kind))
    async def crawl() -> None:
        await asyncio.sleep(3600)

    await expired(q, crawl)
    await q.run(burst=True, signals=False)

    assert failures == ["Expired"]
