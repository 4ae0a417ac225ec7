"""Kue for callers who want callbacks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from kue import ActiveJob, JobFailed, Kue, State
from kue.model.job import Completed
from kue.vertx import CallbackKue, JobService
from kue.vertx.service_binding import actions
from tests.support.patience import PATIENCE_SECONDS, until
from tests.vertx.hearing import add, finish


@pytest.fixture
async def kue(q: Kue) -> AsyncIterator[CallbackKue]:
    kue = CallbackKue(q)
    yield kue
    await called(kue.close)


async def called(verb: Callable[..., None], *args: Any) -> Any:
    """Call a verb; return the result that its callback got, or raise the error."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def handler(result: Any, error: Exception | None) -> None:
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    verb(*args, handler)
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await answer


async def result_of(kue: CallbackKue, work: Callable[[ActiveJob], object]) -> Any:
    """Return the result of a job that *work* runs."""
    kue.process("work", 1, work)
    job = await called(kue.save_job, kue.create_job("work"))
    return await job.result(20)


async def test_a_job_is_saved_and_run_by_callbacks(kue: CallbackKue) -> None:
    def double(job: ActiveJob) -> None:
        kue.job_done(job, 2 * job.data)

    kue.process("double", 3, double)
    job = await called(kue.save_job, kue.create_job("double", 21).priority("high"))

    assert await job.result(20) == 42


async def test_a_handler_may_be_done_after_it_returned(kue: CallbackKue) -> None:
    def later(job: ActiveJob) -> None:
        asyncio.get_running_loop().call_soon(kue.job_done, job, "later")

    assert await result_of(kue, later) == "later"


async def test_a_handler_may_be_a_coroutine_function(kue: CallbackKue) -> None:
    async def work(job: ActiveJob) -> None:
        await asyncio.sleep(0)
        kue.job_done(job, "awaited")

    assert await result_of(kue, work) == "awaited"


async def test_a_blocking_handler_runs_in_a_thread(kue: CallbackKue) -> None:
    def work(job: ActiveJob) -> None:
        kue.job_done(job, threading.current_thread() is not threading.main_thread())
        kue.job_done(job, "a second word does not count")

    kue.process_blocking("work", 2, work)
    job = await called(kue.save_job, kue.create_job("work"))

    assert await job.result(20) is True


async def test_a_store_that_is_not_fit_is_told_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kue.db").write_text("this is no database, however long it may be")
    kue = CallbackKue.create_kue(f"sqlite:///{tmp_path}/kue.db")

    kue.process("email", 1, print)

    await until(lambda: "jobs of type 'email' are no longer run" in caplog.text)
    await called(kue.close)


async def test_a_coroutine_function_does_not_block(kue: CallbackKue) -> None:
    async def work(job: ActiveJob) -> None: ...

    with pytest.raises(TypeError, match=r"use process\('work', …\)"):
        kue.process_blocking("work", 2, work)


@pytest.mark.parametrize("error", [ValueError("no good"), "no good"])
async def test_a_run_may_be_ended_badly(kue: CallbackKue, error: object) -> None:
    with pytest.raises(JobFailed, match="no good"):
        await result_of(kue, lambda job: kue.job_done_fail(job, error))


async def test_a_handler_that_raises_fails_the_job(kue: CallbackKue) -> None:
    def bad(job: ActiveJob) -> None:
        raise ValueError("no good")

    with pytest.raises(JobFailed, match="ValueError: no good"):
        await result_of(kue, bad)


async def test_progress_is_told_and_events_are_heard(kue: CallbackKue) -> None:
    heard: list[int] = []
    kue.on("job_progress", lambda event: heard.append(event.detail["progress"]))

    def work(job: ActiveJob) -> None:
        kue.job_progress(job, 1, 4, lambda told, error: kue.job_done(told))

    await result_of(kue, work)

    await until(lambda: heard == [25])


async def test_every_action_of_the_service_calls_back(q: Kue, kue: CallbackKue) -> None:
    given = {
        "id": 1,
        "type": "email",
        "state": "COMPLETE",
        "from_": 0,
        "to": 9,
        "order": "asc",
    }
    await finish(q, await add(q), Completed())
    service = JobService(q)
    in_order = sorted(
        actions(JobService).values(), key=lambda action: action.name == "removeJob"
    )

    for action in in_order:
        names = action.arguments.__struct_fields__
        args = [given[name] for name in names]
        expected = await getattr(service, action.method)(*args)
        assert await called(getattr(kue, action.method), *args) == expected


async def test_errors_reach_the_callback(kue: CallbackKue) -> None:
    with pytest.raises(ValueError, match="state 'LOST' is unknown"):
        await called(kue.card, "LOST")


async def test_a_callback_that_raises_harms_nobody(
    kue: CallbackKue, caplog: pytest.LogCaptureFixture
) -> None:
    done = asyncio.Event()

    async def raises(result: object, error: object) -> None:
        done.set()
        raise ValueError("not my day")

    kue.get_all_types(raises)
    await done.wait()

    assert await called(kue.get_all_types) == []
    assert "not my day" in caplog.text


async def test_a_queue_is_made_by_its_url() -> None:
    kue = CallbackKue.create_kue("memory://")

    assert await called(kue.get_all_types) == []
    await called(kue.close)


def test_without_a_loop_there_is_nobody_to_call_back() -> None:
    kue = CallbackKue.create_kue("memory://")

    with pytest.raises(RuntimeError, match="no running event loop"):
        kue.get_all_types(print)
    with pytest.raises(RuntimeError, match="no running event loop"):
        kue.process("email", 1, print)


def test_jobs_are_added_by_blocking_calls_and_found_by_callbacks(plain_q: Kue) -> None:
    added = plain_q.sync.enqueue("email", {"to": "ann"})
    assert plain_q.sync.counts("email")[State.WAITING] == 1

    async def look() -> Any:
        kue = CallbackKue(plain_q)
        found = await called(kue.get_job, added.id)
        await called(kue.close)
        return found

    assert asyncio.run(look())["data"] == {"to": "ann"}
