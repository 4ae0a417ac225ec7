"""sync:// runs a job where it is added, null:// forgets it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar

import pytest

import kue
from kue import (
    ActiveJob,
    BadPayload,
    Job,
    JobFailed,
    JobNotFound,
    Kue,
    Release,
    State,
    current_job,
)
from kue.client import flow_enqueue
from kue.client.hooks import CallNext
from kue.model.job import Error


@pytest.fixture
async def inline() -> AsyncIterator[Kue]:
    async with Kue("sync://") as q:
        yield q


async def test_a_job_has_ended_when_it_was_added(inline: Kue) -> None:
    @inline.task
    async def double(number: int) -> int:
        return 2 * number

    @inline.task
    def shout(text: str) -> str:
        return text.upper()

    assert await (await double.enqueue(21)).result() == 42
    assert (
        await (await shout.options(queue="mail", delay="1d").enqueue("a")).result()
        == "A"
    )
    built = await inline.create_job("double", {"number": 4}).save()
    assert (await built.refresh()).result == 8
    many = await double.enqueue_many({"number": n} for n in range(3))
    assert [(await job.refresh()).result for job in many] == [0, 2, 4]


async def test_retries_follow_at_once_and_middleware_is_around_each(
    inline: Kue,
) -> None:
    attempts: list[int] = []
    failed: list[str] = []

    @inline.middleware
    async def note(job: ActiveJob, call_next: CallNext) -> object:
        attempts.append(job.attempt)
        return await call_next(job)

    @inline.on_failure
    def remember(job: Job, error: Error) -> None:
        failed.append(error.message)

    @inline.task(attempts=3, backoff="1h")
    async def flaky(at_last: bool) -> str:
        active = current_job()
        if at_last and active is not None and active.is_last_attempt:
            return "done"
        raise OSError("not yet")

    assert await (await flaky.enqueue(True)).result() == "done"
    job = await flaky.enqueue(False)
    with pytest.raises(JobFailed, match="not yet"):
        await job.result()

    assert attempts == [1, 2, 3, 1, 2, 3]
    assert failed == ["not yet"]


async def test_what_a_job_logs_and_adds_is_there_when_it_was_added(
    inline: Kue,
) -> None:
    @inline.task
    async def child(number: int) -> int:
        return number

    @inline.task
    async def parent(job: ActiveJob) -> int:
        print("adding")  # noqa: T201 - it is captured
        job.progress(50)
        added = await child.enqueue(7)
        return await added.result()

    job = await parent.enqueue()

    assert await job.result() == 7
    assert [line.text for line in await job.logs()] == ["adding"]


async def test_a_job_that_failed_has_its_error_in_its_log_and_keeps_its_progress(
    inline: Kue,
) -> None:
    @inline.task(attempts=2)
    async def convert(job: ActiveJob) -> None:
        job.progress(40, 100, {"page": job.attempt})
        raise OSError("no disk")

    handle = await convert.enqueue()
    job = await handle.refresh()

    logged = [(one.level, one.text, one.attempt) for one in await handle.logs()]
    assert logged == [("error", "OSError: no disk", n) for n in (1, 2)]
    assert (job.progress, job.progress_data) == (40, {"page": 2})
    reached = [one.progress and one.progress.data for one in job.history]
    assert reached == [{"page": 1}, {"page": 2}]


async def test_jobs_that_wait_for_a_job_run_after_it(inline: Kue) -> None:
    order: list[str] = []

    @inline.task
    async def step(name: str) -> None:
        order.append(name)

    @inline.task
    async def first() -> None:
        await step.options(after=[current_job()]).enqueue("last")
        order.append("first")

    await first.enqueue()

    assert order == ["first", "last"]


@pytest.mark.parametrize("is_large", [False, True])
async def test_a_flow_has_ended_when_it_was_added(
    inline: Kue, monkeypatch: pytest.MonkeyPatch, is_large: bool
) -> None:
    if is_large:
        monkeypatch.setattr(flow_enqueue, "MAX_BATCH", 2)

    @inline.task
    async def double(number: int) -> int:
        return 2 * number

    @inline.task
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    flow = await (kue.group(double.s(n) for n in range(4)) | total.s()).enqueue()
    assert (await flow.jobs[-1].refresh()).state is State.COMPLETE
    assert await flow.result() == 12

    single = await double.s(5).enqueue()
    assert await single.result() == 10


async def test_a_batch_has_ended_with_its_callbacks_when_it_was_added(
    inline: Kue,
) -> None:
    calls: list[object] = []

    @inline.task
    async def load(job: ActiveJob, row: int) -> None:
        calls.append(row)
        if row == 1:
            assert job.batch is not None
            await job.batch.add([load.s(2)])

    @inline.task
    async def note(batch_id: int, what: str) -> None:
        calls.append(what)

    batch = kue.batch().before(note.s("before")).then(note.s("then"))
    handle = await batch.finally_(note.s("finally")).enqueue([load.s(1)])

    assert (await handle.progress()).state is State.COMPLETE
    assert calls[:3] == ["before", 1, 2]
    assert sorted(map(str, calls[3:])) == ["finally", "then"]


async def test_a_job_that_is_released_stays_delayed(inline: Kue) -> None:
    @inline.task
    async def later() -> None:
        raise Release

    job = await later.enqueue()

    assert (await job.refresh()).state is State.DELAYED


async def test_tasks_at_the_same_time_each_find_their_job_ended(inline: Kue) -> None:
    @inline.task
    async def wait() -> None:
        # Long enough for the others to be added.
        await asyncio.sleep(0.01)

    jobs = await asyncio.gather(*(wait.enqueue() for _ in range(10)))

    assert {(await job.refresh()).state for job in jobs} == {State.COMPLETE}


async def test_a_run_sees_the_context_of_its_caller_and_cannot_change_it(
    inline: Kue,
) -> None:
    user: ContextVar[str] = ContextVar("user")

    @inline.task
    async def whose() -> str:
        name = user.get()
        user.set("bob")
        return name

    user.set("ann")

    assert await (await whose.enqueue()).result() == "ann"
    assert user.get() == "ann"


def test_blocking_code_gets_the_result_too() -> None:
    q = Kue("sync://")

    @q.task
    def double(number: int) -> int:
        return 2 * number

    assert double.delay(4).result() == 8
    q.sync.close()


async def test_a_null_store_checks_jobs_and_forgets_them() -> None:
    async with Kue("null://") as q:
        job, other = await q.enqueue("email", {"to": "ann"}), await q.enqueue("email")

        assert job.id != other.id
        assert job.is_new
        assert await q.counts("email") == dict.fromkeys(State, 0)
        with pytest.raises(JobNotFound):
            await job.result(timeout=5)
        with pytest.raises(BadPayload):
            await q.enqueue("email", object())


async def test_a_null_store_forgets_flows_and_batches_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flow_enqueue, "MAX_BATCH", 2)
    async with Kue("null://") as q:

        @q.task
        async def load(row: int) -> int:
            return row

        flow = await kue.group(load.s(row) for row in range(5)).enqueue()
        batch = kue.batch().before(load.s()).progress(load.s()).then(load.s())
        handle = await batch.enqueue(load.s(row) for row in range(5))

        assert len(flow.jobs) == 5
        with pytest.raises(JobNotFound):
            await handle.progress()


@pytest.mark.parametrize("url", ["memory://", "sync://", "null://"])
async def test_a_queue_in_memory_is_not_shared_with_other_processes(url: str) -> None:
    async with Kue(url) as q:
        assert not q.is_shared
        assert repr(q) == f"<Kue on {url}>"
