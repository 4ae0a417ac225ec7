"""Signs of life on their way to the store: few calls, and before the end."""

from __future__ import annotations

import asyncio
import threading

import pytest

from kue import ActiveJob, JobNotFound, Kue
from kue.store.contract import Store
from kue.store.values import MAX_LOG_LINES, RemoveRequest
from tests.support.flaky import Wire
from tests.support.patience import PATIENCE_SECONDS, until
from tests.worker.working import worked


async def test_of_progress_said_at_once_only_the_newest_is_written(
    q: Kue, wire: Wire
) -> None:
    @q.task
    async def count(job: ActiveJob) -> None:
        for number in range(1000):
            job.progress(number, 1000)
        await job.progress(1000, 1000, {"page": 7})
        seen.append((await handle.refresh()).progress_data)

    seen: list[object] = []
    handle = await count.enqueue()
    await worked(q, handle)

    assert seen == [{"page": 7}]
    assert wire.times("progress") <= 2


async def test_runs_that_speak_at_once_share_a_call(q: Kue, wire: Wire) -> None:
    everyone = asyncio.Barrier(50)

    @q.task(concurrency=50)
    async def count(job: ActiveJob) -> None:
        await everyone.wait()
        await job.progress(50)

    jobs = await count.enqueue_many({} for _ in range(50))
    async with q.work():
        for job in jobs:
            await job.result(timeout=PATIENCE_SECONDS)

    assert wire.times("progress") < 10


async def test_everything_a_run_said_is_there_when_it_has_ended(q: Kue) -> None:
    """Also what a thread said in its last moment without waiting for it."""

    @q.task
    def speak(job: ActiveJob) -> None:
        for number in range(20):
            job.log(f"line {number}")

    job = await speak.enqueue()
    await worked(q, job)

    assert [line.text for line in await job.logs()] == [
        f"line {number}" for number in range(20)
    ]


async def test_a_run_that_talks_faster_than_the_store_hears_keeps_its_newest_lines(
    q: Kue,
) -> None:
    @q.task
    async def speak(job: ActiveJob) -> None:
        for number in range(5000):
            job.log(number)

    job = await speak.enqueue()
    await worked(q, job)

    lines = await job.logs()
    assert len(lines) == MAX_LOG_LINES
    assert lines[-1].text == "4999"


async def test_a_run_whose_job_was_removed_is_told_so(q: Kue) -> None:
    told: list[str] = []
    entered, removed = asyncio.Event(), asyncio.Event()

    @q.task
    async def speak(job: ActiveJob) -> None:
        entered.set()
        await removed.wait()
        try:
            await job.progress(1)
        except JobNotFound as exc:
            told.append(str(exc))

    job = await speak.enqueue()
    async with q.work():
        await entered.wait()
        await job.remove(force=True)
        removed.set()
        await until(lambda: bool(told))

    assert told == [f"job {job.id} does not exist"]


async def test_a_run_that_is_no_longer_ours_is_interrupted_when_it_speaks(
    q: Kue, kue_store: Store
) -> None:
    interrupted = threading.Event()
    entered, removed = threading.Event(), threading.Event()

    @q.task
    def speak(job: ActiveJob) -> None:
        entered.set()
        removed.wait(PATIENCE_SECONDS)
        job.progress(1)
        try:
            while not job.should_stop:
                threading.Event().wait(0.001)
        finally:
            interrupted.set()

    job = await speak.enqueue()
    async with q.work():
        await until(entered.is_set)
        await kue_store.remove(RemoveRequest([job.id], force=True))
        removed.set()
        await until(interrupted.is_set)


async def test_a_store_that_is_away_costs_the_lines_alone(
    q: Kue, wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    @q.task
    async def speak(job: ActiveJob) -> str:
        wire.is_cut = True
        await job.log("unheard")
        await job.progress(1)
        wire.is_cut = False
        await job.log("heard")
        mended.set()
        return "done"

    mended = asyncio.Event()
    job = await speak.enqueue()
    async with q.work():
        await mended.wait()
        assert await job.result(timeout=PATIENCE_SECONDS) == "done"

    assert [line.text for line in await job.logs()] == ["heard"]
    assert "progress and log lines dropped" in caplog.text
