"""`expires`: a run that goes on when the life of its job is over is ended."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from kue import ActiveJob, JobFailed, JobHandle, Kue, State
from kue.model.job import Job
from tests.worker.working import worked

#: Long enough for the first run to begin, on a busy machine.
LIFE = 4.0
#: No matter of the store.
pytestmark = pytest.mark.parametrize("place", ["memory"], indirect=True)


async def expired(q: Kue, job: JobHandle[Any]) -> Job:
    """Work until a job has expired while it ran, and return it."""
    with pytest.raises(JobFailed, match="Expired: the job expired while it ran, 4 s"):
        await worked(q, job)
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

    job = await expired(q, await crawl.enqueue())

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

    assert (await expired(q, await crawl.enqueue())).attempts == 1
    assert tidied.is_set()


async def test_a_retry_has_only_the_rest_of_the_life(q: Kue) -> None:
    @q.task(expires=LIFE, attempts=3, backoff=0)
    async def crawl(job: ActiveJob) -> None:
        if job.attempt == 1:
            raise ConnectionError
        await asyncio.sleep(3600)

    assert (await expired(q, await crawl.enqueue())).attempts == 2


async def test_so_has_a_job_that_goes_on_after_a_sleep(q: Kue) -> None:
    @q.task(expires=LIFE)
    async def crawl(job: ActiveJob) -> None:
        await job.sleep("10ms")
        await asyncio.sleep(3600)

    job = await expired(q, await crawl.enqueue())

    assert job.releases == 1


async def test_failure_hooks_are_called(q: Kue) -> None:
    failures: list[str] = []

    @q.task(expires=LIFE, on_failure=lambda job, error: failures.append(error.kind))
    async def crawl() -> None:
        await asyncio.sleep(3600)

    await crawl.enqueue()
    await q.run(burst=True, signals=False)

    assert failures == ["Expired"]
