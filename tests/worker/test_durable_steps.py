"""Steps, sleeps and waits of a handler, in coroutines, threads and child processes."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kue import (
    ActiveJob,
    BadPayload,
    InvalidTransition,
    JobCancelled,
    JobFailed,
    JobHandle,
    JobNotFound,
    Kue,
    State,
    StoreUnavailable,
)
from tests.support.jobs import outcomes
from tests.support.patience import PATIENCE_SECONDS, until
from tests.worker import child_tasks
from tests.worker.working import worked

DAWN = datetime(2026, 1, 1, tzinfo=UTC)
#: How often each function was called.
Calls = Counter[str]


class Work:
    """Functions for steps, which count how often they are called."""

    def __init__(self) -> None:
        self.calls: Calls = Counter()

    def plain(self, name: str, result: Any = None) -> Any:
        self.calls[name] += 1
        return result

    async def coroutine(self, name: str, result: Any = None) -> Any:
        return self.plain(name, result)

    def fails_once(self, name: str) -> str:
        self.calls[name] += 1
        if self.calls[name] == 1:
            raise ConnectionError("not yet")
        return "done"


@pytest.fixture
def work() -> Work:
    return Work()


async def until_suspended(job: JobHandle[Any]) -> None:
    async def is_suspended() -> bool:
        read = await job.refresh()
        return read.state is State.DELAYED and bool(read.history)

    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await is_suspended():  # noqa: ASYNC110 - a fact of the store
            await asyncio.sleep(0.01)


async def test_a_second_run_gets_the_kept_results_without_calling_the_functions(
    q: Kue, work: Work
) -> None:
    @q.task(attempts=3, backoff=0)
    async def order(job: ActiveJob) -> list[Any]:
        one = await job.step("one", work.coroutine, "one", {"id": 1})
        two = await job.step("two", work.plain, "two", result=(1, 2))
        three = await job.step("three", work.fails_once, "three")
        return [one, two, three]

    result = await worked(q, await order.enqueue())

    assert result == [{"id": 1}, [1, 2], "done"]
    assert work.calls == {"one": 1, "two": 1, "three": 2}


async def test_the_first_run_gets_what_later_ones_get(q: Kue, work: Work) -> None:
    seen: list[Any] = []

    @q.task(attempts=2, backoff=0)
    async def order(job: ActiveJob) -> None:
        seen.append(await job.step("one", lambda: (1, {"at": DAWN})))
        if len(seen) == 1:
            raise ConnectionError

    await worked(q, await order.enqueue())

    assert seen == [[1, {"at": "2026-01-01T00:00:00Z"}]] * 2


async def test_a_plain_handler_gets_results_themselves(q: Kue, work: Work) -> None:
    @q.task(attempts=2, backoff=0)
    def order(job: ActiveJob) -> list[Any]:
        one = job.step("one", work.plain, "one", 1)
        two = job.step("two", work.coroutine, "two", 2)
        job.sleep("10ms")
        return [one, two, job.step("three", work.fails_once, "three")]

    job = await order.enqueue()

    assert await worked(q, job) == [1, 2, "done"]
    assert work.calls == {"one": 1, "two": 1, "three": 2}


@pytest.mark.parametrize("task", [child_tasks.steps, child_tasks.async_steps])
async def test_steps_work_in_child_processes(q: Kue, task: Any, tmp_path: Any) -> None:
    order: Any = q.task(execution="process", attempts=2, backoff=0)(task)
    job = await order.enqueue(str(tmp_path / "effects"))

    async with q.work():
        await job.signal("approved", {"by": "ann"})
        result = await job.result(timeout=PATIENCE_SECONDS)

    assert result == ["charged", {"by": "ann"}, "late"]
    assert (tmp_path / "effects").read_text() == "charge\n"
    kinds = [step.kind for step in (await job.steps()).steps]
    assert kinds == ["step", "sleep", "wait", "wait"]


async def test_concurrent_steps_are_all_kept(q: Kue, work: Work) -> None:
    @q.task(attempts=2, backoff=0)
    async def order(job: ActiveJob) -> list[int]:
        steps = [job.step(f"get {n}", work.coroutine, str(n), n) for n in range(9)]
        results = await asyncio.gather(*steps)
        await job.step("last", work.fails_once, "last")
        return results

    assert await worked(q, await order.enqueue()) == [*range(9)]
    assert set(work.calls.values()) == {1, 2}
    assert work.calls["last"] == 2


async def test_a_job_without_steps_reads_none(q: Kue) -> None:
    """The hot path pays nothing."""
    called: list[str] = []
    store = q.store
    for verb in ("steps", "record_step", "receive"):
        setattr(store, verb, lambda *_, verb=verb, **__: called.append(verb))

    @q.task
    async def plain(job: ActiveJob) -> None: ...

    await worked(q, await plain.enqueue())

    assert called == []


# -- errors ----------------------------------------------------------------------------


async def error_of(q: Kue, job: JobHandle[Any]) -> JobFailed:
    with pytest.raises(JobFailed) as failed:
        await worked(q, job)
    assert outcomes(await job.refresh()) == ["failed"], "a retry cannot help"
    return failed.value


async def test_a_name_that_is_used_twice_fails_the_job(q: Kue) -> None:
    @q.task(attempts=3)
    async def order(job: ActiveJob) -> None:
        for _ in range(2):
            await job.step("charge", int)

    error = await error_of(q, await order.enqueue())

    assert error.kind == "StepError"
    assert "has come to step 'charge' before in this run" in str(error)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_call_in_place_of_a_function_fails_the_job(
    q: Kue, work: Work, is_async: bool
) -> None:
    """A common mistake: the function is called, rather than passed."""

    async def in_coroutine(job: ActiveJob) -> None:
        await job.step("charge", work.coroutine("charge"))  # type: ignore[call-overload]

    def in_thread(job: ActiveJob) -> None:
        job.step("charge", work.plain("charge", 7))

    name, function = ("coroutine", in_coroutine) if is_async else ("7", in_thread)
    task: Any = q.task(attempts=3)(function)

    error = await error_of(q, await task.enqueue())

    assert error.kind == "StepError"
    assert "step 'charge' takes a function and its arguments" in str(error)
    assert "job.step('charge', function, 1)" in str(error)
    assert name in str(error).partition(", not ")[2]


async def test_a_sleep_name_that_is_used_twice_fails_the_job(q: Kue) -> None:
    @q.task(attempts=3)
    async def order(job: ActiveJob) -> None:
        for _ in range(2):
            await job.sleep(0, name="nap")

    assert "has come to sleep 'nap' before" in str(
        await error_of(q, await order.enqueue())
    )


@pytest.mark.parametrize("result", [object(), "x" * 70_000])
async def test_a_result_that_cannot_be_kept_fails_the_job(q: Kue, result: Any) -> None:
    @q.task(attempts=3)
    async def order(job: ActiveJob) -> None:
        await job.step("charge", lambda: result)

    error = await error_of(q, await order.enqueue())

    assert (error.kind, error.message[:40]) == (
        "StepError",
        "the result cannot be kept: step 'charge'",
    )


async def test_more_than_a_thousand_steps_fail_the_job(q: Kue) -> None:
    @q.task(attempts=3)
    async def order(job: ActiveJob) -> None:
        await asyncio.gather(*(job.step(str(n), int) for n in range(1000)))
        await job.sleep("1d")

    error = await error_of(q, await order.enqueue())

    assert "has 1,000 steps, sleeps and waits, and no more can be kept" in str(error)


# -- sleeps ----------------------------------------------------------------------------


async def test_sleeps_are_passed_one_after_the_other(q: Kue, work: Work) -> None:
    @q.task
    async def nap(job: ActiveJob) -> int:
        work.plain("run")
        for _ in range(3):
            await job.sleep("5ms")
        await job.sleep(timedelta(milliseconds=5), name="last")
        await job.sleep(datetime.now(UTC) - timedelta(days=1))
        return work.calls["run"]

    job = await nap.enqueue()

    assert await worked(q, job) == 5
    kept = (await job.steps()).steps
    assert [(step.kind, step.name) for step in kept] == [
        *(("sleep", str(number)) for number in (1, 2, 3)),
        ("sleep", "last"),
    ]
    assert (await job.refresh()).attempts == 1


async def test_a_sleep_in_a_task_group_suspends_the_job(q: Kue, work: Work) -> None:
    @q.task
    async def nap(job: ActiveJob) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(job.sleep("5ms"))
        return "slept"

    assert await worked(q, await nap.enqueue()) == "slept"


async def test_an_except_clause_of_a_handler_does_not_swallow_a_suspension(
    q: Kue,
) -> None:
    @q.task
    async def nap(job: ActiveJob) -> str:
        try:
            await job.sleep("5ms")
        except Exception:
            return "swallowed"
        return "slept"

    assert await worked(q, await nap.enqueue()) == "slept"


# -- signals ---------------------------------------------------------------------------


async def test_a_job_waits_for_a_signal_and_gets_its_data(q: Kue, work: Work) -> None:
    @q.task
    async def order(job: ActiveJob) -> Any:
        await job.step("ask", work.coroutine, "ask")
        return await job.wait_for("approved", timeout="7d")

    job = await order.enqueue()
    async with q.work():
        await until_suspended(job)
        await q.signal(job.id, "approved", {"by": "ann"})
        result = await job.result(timeout=PATIENCE_SECONDS)

    assert result == {"by": "ann"}
    assert work.calls == {"ask": 1}


async def test_a_signal_that_was_sent_before_is_received_at_once(q: Kue) -> None:
    @q.task
    async def order(job: ActiveJob) -> list[Any]:
        return [await job.wait_for("message") for _ in range(3)]

    job = await order.enqueue()
    for number in range(3):
        await q.signal(job, "message", number)

    assert await worked(q, job) == [0, 1, 2]
    assert outcomes(await job.refresh()) == ["complete"]


async def test_a_signal_that_does_not_come_fails_the_job(q: Kue) -> None:
    @q.task(attempts=3)
    async def order(job: ActiveJob) -> None:
        await job.wait_for("approved", timeout="5ms")

    job = await order.enqueue()
    with pytest.raises(JobFailed, match="waited for signal 'approved', which did not"):
        await worked(q, job)
    assert (await job.refresh()).error.kind == "SignalTimeout"  # type: ignore[union-attr]

    await job.retry()
    await job.signal("approved")
    await worked(q, job)
    assert (await job.refresh()).state is State.COMPLETE


async def test_a_default_is_returned_instead(q: Kue) -> None:
    @q.task
    async def order(job: ActiveJob) -> Any:
        return await job.wait_for("approved", timeout="5ms", default="no")

    assert await worked(q, await order.enqueue()) == "no"


async def test_a_timeout_that_a_handler_went_on_from_stands(q: Kue, work: Work) -> None:
    """A signal that comes too late does not send a later run another way."""

    @q.task(attempts=2, backoff=0)
    async def order(job: ActiveJob) -> Any:
        answer = await job.wait_for("approved", timeout="5ms", default="no")
        if not work.calls["late"]:
            await q.signal(job.id, "approved", "yes")
        await job.step("late", work.fails_once, "late")
        return answer

    assert await worked(q, await order.enqueue()) == "no"


async def test_a_signal_needs_an_unfinished_job_and_json(q: Kue) -> None:
    @q.task
    async def order(job: ActiveJob) -> None: ...

    job = await order.enqueue()
    with pytest.raises(BadPayload, match="cannot be written as JSON"):
        await job.signal("approved", object())
    with pytest.raises(ValueError, match="the name of a signal must have 1 to 200"):
        await q.signal(job, "")
    with pytest.raises(JobNotFound):
        await q.signal(job.id + 1000, "approved")
    await worked(q, job)

    with pytest.raises(InvalidTransition, match="complete and cannot be sent a signal"):
        await job.signal("approved")


def test_signals_are_sent_from_blocking_code(plain_q: Kue) -> None:
    q = plain_q.sync
    job = q.enqueue("order")

    q.signal(job, "approved", 1)
    q.signal(job.id, "approved", 2)
    job.signal("approved", 3)

    signals = job.steps().signals
    assert [signal.data for signal in signals] == [1, 2, 3]
    assert q.steps(job.id).signals == signals


# -- restarts by hand ------------------------------------------------------------------


async def test_a_failed_job_goes_on_from_the_step_that_failed(
    q: Kue, work: Work
) -> None:
    @q.task(attempts=1)
    async def order(job: ActiveJob) -> str:
        await job.step("charge", work.coroutine, "charge")
        return str(await job.step("ship", work.fails_once, "ship"))

    job = await order.enqueue()
    with pytest.raises(JobFailed):
        await worked(q, job)

    await job.retry()

    assert await worked(q, job) == "done"
    assert work.calls == {"charge": 1, "ship": 2}


async def test_a_complete_job_that_is_run_again_repeats_its_steps(
    q: Kue, work: Work
) -> None:
    @q.task
    async def order(job: ActiveJob) -> None:
        await job.step("charge", work.coroutine, "charge")

    job = await order.enqueue()
    await worked(q, job)
    await job.refresh()

    await job.retry()

    await worked(q, job)
    assert work.calls == {"charge": 2}


# -- trouble ---------------------------------------------------------------------------


async def test_a_step_that_ended_is_kept_after_an_outage(q: Kue, work: Work) -> None:
    record, losses = q.store.record_step, 2

    async def away(*args: Any, **given: Any) -> Any:
        nonlocal losses
        if losses:
            losses -= 1
            raise StoreUnavailable("away")
        return await record(*args, **given)

    q.store.record_step = away  # type: ignore[method-assign]

    @q.task(attempts=2, backoff=0)
    async def order(job: ActiveJob) -> int:
        await job.step("charge", work.coroutine, "charge")
        return job.attempt

    assert await worked(q, await order.enqueue()) == 1
    assert (work.calls, losses) == ({"charge": 1}, 0)


async def test_a_step_that_ended_is_kept_when_its_run_is_cancelled_meanwhile(
    q: Kue, work: Work
) -> None:
    """The record is on its way: it arrives before the run ends."""
    record, runs = q.store.record_step, list[ActiveJob]()

    async def slow(*args: Any, **given: Any) -> Any:
        await until(lambda: runs[0].should_stop)
        return await record(*args, **given)

    q.store.record_step = slow  # type: ignore[method-assign]

    @q.task
    async def order(job: ActiveJob) -> None:
        runs.append(job)
        await job.step("charge", work.coroutine, "charge")

    job = await order.enqueue()
    async with q.work():
        await until(lambda: work.calls["charge"] == 1)
        await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(timeout=PATIENCE_SECONDS)

    assert [step.name for step in (await job.steps()).steps] == ["charge"]
