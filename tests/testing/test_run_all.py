"""Jobs become due by a clock that the test sets, and run when it says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

import kue
from kue.testing import Clock, fake, run_all

START = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)


@pytest.fixture
def clock() -> Clock:
    return Clock(START)


@pytest.fixture
async def q(clock: Clock) -> AsyncIterator[kue.Kue]:
    async with kue.Kue("memory://", clock=clock) as queue:
        yield queue


async def test_time_passes_only_when_the_test_says_so(clock: Clock, q: kue.Kue) -> None:
    assert await q.now() == int(START.timestamp() * 1000)

    clock.advance("1h30m")
    assert clock.now == datetime(2026, 3, 1, 10, tzinfo=UTC)
    clock.move_to(datetime(2026, 3, 2, tzinfo=UTC))
    assert await q.now() == clock.now_ms()
    with pytest.raises(ValueError, match="cannot be set back"):
        clock.move_to(START)


async def test_a_delayed_job_runs_once_it_is_due(clock: Clock, q: kue.Kue) -> None:
    @q.task
    async def greet() -> str:
        return "hello"

    job = await greet.options(delay="2d").enqueue()
    assert await run_all(q) == 0
    clock.advance("47h")
    assert await run_all(q) == 0
    clock.advance("1h")

    assert await run_all(q) == 1
    assert await job.result() == "hello"


async def test_a_running_worker_notices_that_the_clock_was_set(
    clock: Clock, q: kue.Kue
) -> None:
    @q.task
    async def greet() -> str:
        return "hello"

    job = await greet.options(delay="2d").enqueue()
    async with q.work():
        clock.advance("2d")
        # Far less than the wait that it would sleep through otherwise.
        assert await job.result(timeout=2) == "hello"


async def test_backoff_is_skipped_and_the_last_error_is_raised(
    clock: Clock, q: kue.Kue
) -> None:
    attempts: list[datetime] = []

    @q.task(attempts=3, backoff=["1h", "1d"])
    async def fail() -> None:
        attempts.append(clock.now)
        raise LookupError(f"attempt {len(attempts)}")

    await fail.enqueue()
    assert await run_all(q) == 1
    with pytest.raises(LookupError, match="attempt 3") as caught:
        await run_all(q, advance="2d")

    assert caught.value.__notes__ == ["raised by job 1 of fail, attempt 3"]
    assert [str(at - START) for at in attempts] == [
        "0:00:00",
        "1:00:00",
        "1 day, 1:00:00",
    ]
    assert clock.now.day == 3
    assert await run_all(q) == 0  # what failed before is not raised again


async def test_errors_are_raised_only_if_they_are_wanted(q: kue.Kue) -> None:
    @q.task(attempts=1)
    async def fail(number: int) -> None:
        raise ValueError(number)

    for number in range(2):
        await fail.enqueue(number)
    assert await run_all(q, raise_errors=False) == 2

    for number in range(2):
        await fail.enqueue(number)
    with pytest.raises(ExceptionGroup, match="2 jobs failed") as caught:
        await run_all(q)
    assert {type(error) for error in caught.value.exceptions} == {ValueError}


async def test_a_job_that_expired_is_an_error_too(clock: Clock, q: kue.Kue) -> None:
    @q.task
    async def never() -> None: ...

    await never.options(expires="1m").enqueue()
    clock.advance("2m")

    with pytest.raises(kue.JobFailed, match="Expired"):
        await run_all(q)


async def test_schedules_fire_at_their_times(clock: Clock, q: kue.Kue) -> None:
    fired: list[str] = []

    @q.cron("0 9 * * *")
    async def report() -> None:
        fired.append(f"{clock.now:%d %H:%M}")

    assert await run_all(q, advance="3d") == 3
    assert fired == ["01 09:00", "02 09:00", "03 09:00"]


async def test_a_sleeping_job_goes_on(clock: Clock, q: kue.Kue) -> None:
    @q.task
    async def trial(job: kue.ActiveJob) -> str:
        await job.sleep("14d")
        answer = await job.wait_for("paid", timeout="7d", default="no")
        return f"paid: {answer}"

    job = await trial.enqueue()
    await run_all(q, advance="15d")
    await q.signal(job.id, "paid", "yes")
    await run_all(q)

    assert await job.result() == "paid: yes"


async def test_limits_and_unique_keys_follow_the_clock(
    clock: Clock, q: kue.Kue
) -> None:
    @q.task
    async def call(n: int) -> None: ...

    await q.limit("call", rate=2, per="1m")
    await call.enqueue_many({"n": n} for n in range(5))
    assert await run_all(q) == 2
    assert await run_all(q, advance="1m") == 2
    assert await run_all(q, advance="1h") == 1

    once = call.options(unique="k", unique_for="1d")
    assert (await once.enqueue(1)).is_new
    await run_all(q)
    assert not (await once.enqueue(1)).is_new
    clock.advance("1d")
    assert (await once.enqueue(1)).is_new


async def test_batches_and_jobs_that_wait_for_others_run_to_their_end(
    q: kue.Kue,
) -> None:
    done: list[str] = []

    @q.task
    async def load(row: int) -> None:
        done.append("load")

    @q.task
    async def outer() -> None:
        # Jobs run at the same time: one may wait for another.
        await (await load.enqueue(0)).result()

    @q.task
    async def report(batch: int) -> None:
        done.append("report")

    batch = kue.batch().then(report.s())
    await batch.enqueue([load.s(1), load.s(2), outer.s()])
    await run_all(q)

    assert done == ["load"] * 3 + ["report"]


async def test_failure_hooks_are_called(q: kue.Kue) -> None:
    failed: list[str] = []

    @q.task(attempts=1)
    async def fail() -> None:
        raise ValueError("no")

    @q.on_failure
    async def hook(job: kue.Job, error: object) -> None:
        failed.append(job.name)

    await fail.enqueue()
    await run_all(q, raise_errors=False)

    assert failed == ["fail"]


async def test_a_paused_queue_has_nothing_to_run(q: kue.Kue) -> None:
    @q.task
    async def greet() -> None: ...

    await greet.enqueue()
    await q.pause()

    assert await run_all(q) == 0
    await q.resume()
    assert await run_all(q) == 1


async def test_a_job_that_adds_itself_forever_is_reported(q: kue.Kue) -> None:
    @q.task
    async def again() -> None:
        await again.enqueue()

    await again.enqueue()
    with pytest.raises(RuntimeError, match="does a job add itself"):
        await run_all(q, max_jobs=20)


def test_blocking_tests_pass_the_blocking_queue(clock: Clock, q: kue.Kue) -> None:
    @q.task
    def double(n: int) -> int:
        return 2 * n

    job = double.options(delay="1d").delay(4)
    assert run_all(q.sync) == 0
    assert run_all(q.sync, advance="1d") == 1
    assert job.result() == 8


async def test_a_fake_can_have_a_clock_whatever_the_store_is(clock: Clock) -> None:
    async with kue.Kue("redis://127.0.0.1:1") as q:

        @q.task
        async def greet() -> None: ...

        async with fake(q, clock=clock) as jobs:
            await greet.options(delay="1d").enqueue()
            assert await run_all(q, advance="1d") == 1
        jobs.assert_added(greet, times=1)
        with pytest.raises(AssertionError, match="greet"):
            jobs.assert_added(greet, times=2)
        with pytest.raises(AssertionError, match="greet"):
            jobs.assert_not_added(greet)
        assert q.clock is None


def test_a_clock_is_refused_where_the_store_has_its_own(clock: Clock) -> None:
    with pytest.raises(kue.ConfigError, match="redis://…@host cannot use a clock"):
        kue.Kue("redis://user:secret@host", clock=clock)
    with pytest.raises(kue.ConfigError, match="several stores"):
        kue.Kue("failover://a,b", clock=clock)
