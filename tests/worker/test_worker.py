"""Workers: what they run, how many at once, and that everything is written down."""

from __future__ import annotations

import asyncio
import functools
from typing import Any, Never

import pytest

from kue import (
    ActiveJob,
    ConfigError,
    JobCancelled,
    JobFailed,
    JobNotFound,
    Kue,
    LeaseLost,
    Release,
    State,
)
from kue.model.settings import Settings
from kue.store.contract import Store
from kue.worker.run_services import RunServices
from tests.conftest import new_queue
from tests.support.engines import Engine
from tests.support.flaky import Wire
from tests.support.jobs import claim_one
from tests.support.patience import PATIENCE_SECONDS, until
from tests.worker.working import worked


class Recorder:
    """A handler that remembers what it was given."""

    def __init__(self) -> None:
        self.jobs: list[ActiveJob] = []

    async def __call__(self, job: ActiveJob) -> Any:
        self.jobs.append(job)
        return job.data

    @property
    def data(self) -> list[Any]:
        return [job.data for job in self.jobs]


class Endless:
    """A handler that waits until it is cancelled."""

    def __init__(self) -> None:
        self.started, self.cancelled = asyncio.Event(), asyncio.Event()

    async def __call__(self, job: ActiveJob) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


async def echo(job: ActiveJob) -> Any:
    return job.data


# -- registering -------------------------------------------------------------


def test_a_handler_is_registered_in_any_of_kues_ways() -> None:
    q = Kue("memory://")

    assert q.process("one", echo) is echo
    assert q.process("two", 20, echo) is echo
    assert q.process("three")(echo) is echo
    assert q.process("four", 5)(echo) is echo
    q.process("five", Recorder())
    q.process("six", functools.partial(echo))


@pytest.mark.parametrize("n", [0, -1])
def test_n_must_be_positive(n: int) -> None:
    with pytest.raises(ValueError, match=f"n must be 1 or more, not {n}"):
        Kue("memory://").process("email", n, echo)


def test_a_type_has_one_handler() -> None:
    q = Kue("memory://")
    q.process("email", echo)

    with pytest.raises(ValueError, match="'email' has a handler"):
        q.process("email", 3, echo)


def test_a_handler_must_be_something_to_call() -> None:
    with pytest.raises(TypeError, match="must be a function that takes the job"):
        Kue("memory://").process("email", 3, "send")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "handler",
    [
        lambda: None,
        lambda job, ctx, done, more: None,
        lambda job, *, done: None,
    ],
)
def test_a_handler_that_cannot_be_called_is_refused(handler: Any) -> None:
    with pytest.raises(
        TypeError, match=r"\(job\), \(job, done\) or \(job, ctx, done\)"
    ):
        Kue("memory://").process("email", handler)


def test_further_parameters_of_a_handler_may_be_optional() -> None:
    q = Kue("memory://")

    q.process("one", lambda job, retries=3: None)
    q.process("two", lambda *args: None)
    q.process("three", lambda job=None: None)


async def test_there_must_be_something_to_work_on(q: Kue) -> None:
    with pytest.raises(ConfigError, match=r"register a handler with @q\.task"):
        await q.run()


# -- running -----------------------------------------------------------------


async def test_a_job_runs_and_its_result_is_kept(q: Kue) -> None:
    q.process("email", echo)
    handle = await q.enqueue("email", {"to": "a@b.c"})

    assert await worked(q, handle) == {"to": "a@b.c"}

    job = await handle.refresh()
    assert (job.state, job.attempts, len(job.history)) == (State.COMPLETE, 1, 1)


async def test_jobs_run_by_priority_then_in_the_order_they_came(q: Kue) -> None:
    recorder = Recorder()
    q.process("email", recorder)
    await q.enqueue_many("email", ["n1", "n2"])
    await q.enqueue_many("email", ["l1", "l2"], priority="low")
    await q.enqueue_many("email", ["h1", "h2"], priority="high")
    last = await q.enqueue("email", "last", priority=1000)

    await worked(q, last)

    assert recorder.data == ["h1", "h2", "n1", "n2", "l1", "l2", "last"]


async def test_no_more_than_n_run_or_are_claimed_at_once(q: Kue, wire: Wire) -> None:
    running, most = 0, 0
    full, go_on = asyncio.Event(), asyncio.Event()

    @q.process("email", 3)
    async def handler(job: ActiveJob) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 3:
            full.set()
        await go_on.wait()
        running -= 1

    handles = await q.enqueue_many("email", range(50))
    async with q.work():
        await asyncio.wait_for(full.wait(), 50)
        # A beat and a look at the store later there are still no more.
        await wire.until_called("renew", wire.times("renew") + 1)
        assert await q.active_count() == 3
        go_on.set()
        await asyncio.gather(
            *(handle.result(timeout=PATIENCE_SECONDS) for handle in handles[-3:])
        )

    assert most == 3
    assert max(args[1].limit for name, args, _ in wire.calls if name == "cycle") == 2


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_handler_pauses_its_type_in_its_worker(
    q: Kue, wire: Wire, is_async: bool
) -> None:
    lane: list[Any] = []

    def handler(job: ActiveJob, ctx: Any, done: Any) -> None:
        lane.append(ctx)
        ctx.pause()
        done(None, job.data)

    async def async_handler(job: ActiveJob, ctx: Any, done: Any) -> None:
        handler(job, ctx, done)

    q.process("email", async_handler if is_async else handler)
    q.process("report", echo)
    async with q.work():
        first = await q.enqueue("email", 1)
        assert await first.result(timeout=PATIENCE_SECONDS) == 1
        second = await q.enqueue("email", 2)
        # Heartbeats do not end the pause, and other types go on.
        await wire.until_answered("renew", wire.times("renew") + 2)
        other = await q.enqueue("report", 3)
        assert await other.result(timeout=PATIENCE_SECONDS) == 3
        assert (await second.refresh()).state is State.WAITING

        lane[0].resume()
        assert await second.result(timeout=PATIENCE_SECONDS) == 2


async def test_types_without_a_handler_are_left_alone(q: Kue) -> None:
    q.process("email", echo)
    other = await q.enqueue("report")
    await worked(q, await q.enqueue("email"))

    job = await other.refresh()
    assert (job.state, job.attempts) == (State.WAITING, 0)


async def test_a_slow_type_does_not_hold_up_another(q: Kue) -> None:
    release = asyncio.Event()

    @q.process("report")
    async def slow(job: ActiveJob) -> None:
        await release.wait()

    q.process("email", echo)
    report = await q.enqueue("report")
    email = await q.enqueue("email", 1)

    async with q.work():
        assert await email.result(timeout=PATIENCE_SECONDS) == 1
        release.set()
        await report.result(timeout=PATIENCE_SECONDS)


async def test_a_job_runs_as_often_as_it_has_attempts_and_no_more(q: Kue) -> None:
    attempts: list[int] = []

    @q.process("email")
    async def handler(job: ActiveJob) -> None:
        attempts.append(job.attempt)
        raise ValueError("oops")

    handle = await q.enqueue("email", attempts=3)
    with pytest.raises(Exception, match="ValueError: oops"):
        await worked(q, handle)

    assert attempts == [1, 2, 3]
    assert [entry.outcome for entry in (await handle.refresh()).history] == [
        "retry",
        "retry",
        "failed",
    ]


async def test_a_retry_waits_for_its_backoff(q: Kue) -> None:
    @q.process("email")
    async def handler(job: ActiveJob) -> int:
        if job.attempt == 1:
            raise ValueError("oops")
        return job.now_ms

    handle = await q.enqueue("email", attempts=2, backoff=0.2)
    await worked(q, handle)

    failed, completed = (await handle.refresh()).history
    assert completed.run is not None
    assert completed.run.started_at >= failed.at + 200


async def test_a_released_job_comes_back_without_having_spent_an_attempt(
    q: Kue,
) -> None:
    released = False

    @q.process("email")
    async def handler(job: ActiveJob) -> int:
        nonlocal released
        if not released:
            released = True
            raise Release(0.05)
        return job.attempt

    assert await worked(q, await q.enqueue("email")) == 1


async def test_what_a_run_logs_is_kept_with_its_attempt(q: Kue) -> None:
    @q.process("email")
    async def handler(job: ActiveJob) -> None:
        await job.log("try %d", job.attempt, level="warning")
        if job.attempt == 1:
            raise ValueError("oops")

    handle = await q.enqueue("email", attempts=2)
    await worked(q, handle)

    lines = await handle.logs()
    assert [(line.text, line.level, line.attempt) for line in lines] == [
        ("try 1", "warning", 1),
        ("ValueError: oops", "error", 1),
        ("try 2", "warning", 2),
    ]


async def test_progress_can_be_seen_while_the_job_runs(q: Kue, wire: Wire) -> None:
    seen = asyncio.Event()

    @q.process("email")
    async def handler(job: ActiveJob) -> None:
        await job.progress(1, 4, {"step": "one"})
        await seen.wait()

    handle = await q.enqueue("email")
    told: asyncio.Queue[Any] = asyncio.Queue()
    handle.on("progress", told.put)
    await wire.until_answered("get")
    async with q.work():
        event = await asyncio.wait_for(told.get(), 50)
        job = await handle.refresh()
        seen.set()

    assert (event.detail["progress"], event.detail["data"]) == (25, {"step": "one"})
    assert (job.progress, job.progress_data) == (25, {"step": "one"})


async def test_the_data_of_the_last_progress_is_kept_with_the_ended_job(
    q: Kue,
) -> None:
    @q.process("email")
    async def handler(job: ActiveJob) -> None:
        await job.progress(1, 4, {"page": 1})
        await job.progress(3, 4, {"page": 3})

    handle = await q.enqueue("email")
    await worked(q, handle)

    assert (await handle.refresh()).progress_data == {"page": 3}


async def test_the_error_of_every_run_is_kept_with_its_stack(q: Kue) -> None:
    @q.process("email")
    async def handler(job: ActiveJob) -> Never:
        raise ValueError(f"oops {job.attempt}")

    handle = await q.enqueue("email", attempts=2)
    with pytest.raises(JobFailed):
        await worked(q, handle)

    errors = [entry.error for entry in (await handle.refresh()).history]
    assert [error and error.summary for error in errors] == [
        "ValueError: oops 1",
        "ValueError: oops 2",
    ]
    assert all(error and "in handler" in error.stack for error in errors)


@pytest.mark.parametrize("place", ["memory"], indirect=True)
@pytest.mark.parametrize(
    ("limit", "error"),
    [
        ("timeout", "RunTimeout"),
        ("soft_timeout", "SoftTimeout"),
        ("ttl", "TTLExceeded"),
    ],
)
async def test_a_run_ends_when_one_of_its_time_limits_is_over(
    q: Kue, limit: str, error: str
) -> None:
    q.process("email", Endless())
    options: Any = {limit: "50ms"}
    handle = await q.enqueue("email", **options)

    with pytest.raises(JobFailed, match=error):
        await worked(q, handle)


async def test_fences_grow_with_every_run(q: Kue) -> None:
    fences: list[int] = []

    @q.process("email")
    async def handler(job: ActiveJob) -> None:
        fences.append(job.fence)
        if job.attempt < 3:
            raise ValueError("oops")

    await worked(q, await q.enqueue("email", attempts=3))

    assert fences == sorted(set(fences))
    assert len(fences) == 3


async def test_a_job_added_to_an_idle_worker_starts_at_once(q: Kue, wire: Wire) -> None:
    q.process("email", 10, echo)

    async with q.work():
        await wire.until_called("stand_by")
        cycles = wire.times("cycle")
        handle = await q.enqueue("email")
        await handle.result(timeout=2)

        # Woken, not polled: to claim it, to settle it, to see that there is no more.
        assert wire.times("cycle") - cycles <= 3


async def test_a_delayed_job_starts_when_it_is_due(q: Kue) -> None:
    q.process("email", echo)

    async with q.work():
        handle = await q.enqueue("email", delay="300ms")
        await handle.result(timeout=PATIENCE_SECONDS)

    job = await handle.refresh()
    assert job.started_at is not None
    late = job.started_at - job.created_at - 300
    assert 0 <= late < 500


async def test_outcomes_travel_with_the_next_claim(q: Kue, wire: Wire) -> None:
    q.process("email", 20, echo)
    handles = await q.enqueue_many("email", range(200))

    await worked(q, handles[-1])

    assert wire.times("cycle") < 60
    assert await q.complete_count() == 200


async def test_two_workers_share_the_jobs_and_run_each_once(
    q: Kue, wire: Wire, place: Engine
) -> None:
    ran: list[int] = []

    async def handler(job: ActiveJob) -> None:
        ran.append(job.id)

    other = new_queue(wire, place)
    for queue in (q, other):
        queue.process("email", 5, handler)
    handles = await q.enqueue_many("email", range(300))

    async with q.work(), other.work():
        await asyncio.gather(
            *(handle.result(timeout=PATIENCE_SECONDS) for handle in handles[-5:])
        )

    assert sorted(ran) == [handle.id for handle in handles]


# -- leases ------------------------------------------------------------------


async def test_beats_keep_a_long_run_alive(q: Kue, wire: Wire) -> None:
    """Four beats are more than a lease: without them the job would be taken back."""
    release = asyncio.Event()

    @q.process("email")
    async def handler(job: ActiveJob) -> None:
        await release.wait()

    handle = await q.enqueue("email")
    async with q.work():
        await wire.until_called("renew", 5)
        release.set()
        await handle.result(timeout=PATIENCE_SECONDS)

    job = await handle.refresh()
    assert (job.attempts, job.stalls, len(job.history)) == (1, 0, 1)


async def test_the_jobs_of_a_lost_worker_are_taken_over(
    q: Kue, kue_store: Store
) -> None:
    q.process("email", echo)
    handle = await q.enqueue("email", "survivor")
    await claim_one(kue_store, worker="dead", lease=1, now=await kue_store.now())

    assert await worked(q, handle) == "survivor"

    outcomes = [entry.outcome for entry in (await handle.refresh()).history]
    assert outcomes == ["stalled", "complete"]


async def test_a_running_job_can_be_cancelled(q: Kue) -> None:
    handler = q.process("email", Endless())
    handle = await q.enqueue("email", attempts=5)
    async with q.work():
        await handler.started.wait()
        await handle.cancel("not needed")
        with pytest.raises(JobCancelled):
            await handle.result(timeout=PATIENCE_SECONDS)

    assert handler.cancelled.is_set()
    job = await handle.refresh()
    assert job.state is State.CANCELLED
    assert job.history[-1].reason == "cancelled while it ran: not needed"


async def test_a_run_whose_job_was_taken_away_is_cancelled_and_says_nothing(
    q: Kue, wire: Wire
) -> None:
    handler = q.process("email", Endless())
    handle = await q.enqueue("email")
    async with q.work():
        await handler.started.wait()
        await handle.remove(force=True)
        await asyncio.wait_for(handler.cancelled.wait(), 50)

    assert wire.times("settle") == 0
    assert not await q.exists(handle.id)


async def test_the_outcome_of_a_job_that_is_gone_is_dropped_with_a_word(
    q: Kue, caplog: pytest.LogCaptureFixture
) -> None:
    @q.process("email")
    async def handler(job: ActiveJob) -> str:
        await handle.remove(force=True)
        return "to nobody"

    handle = await q.enqueue("email")
    with pytest.raises(JobNotFound):
        await worked(q, handle)

    assert f"outcome of job {handle.id} dropped: it was removed" in caplog.messages


async def test_a_job_that_was_taken_back_and_claimed_again_runs_anew(
    q: Kue, kue_store: Store
) -> None:
    """The earlier run is void: it is cancelled, and only the later one counts."""
    first = Endless()
    fences: list[int] = []

    @q.process("email", 2)
    async def handler(job: ActiveJob) -> str:
        fences.append(job.fence)
        if len(fences) == 1:
            await first(job)
        return "a later one"

    handle = await q.enqueue("email")
    async with q.work() as worker:
        await first.started.wait()
        while len(fences) < 2:
            # A claim or a beat in between renews the lease: then end it once more.
            await kue_store.leave(worker.name)
            await kue_store.tend()
        assert await handle.result(timeout=PATIENCE_SECONDS) == "a later one"
        await asyncio.wait_for(first.cancelled.wait(), 50)

    assert fences == sorted(set(fences))
    history = (await handle.refresh()).history
    assert (history[0].outcome, history[-1].outcome) == ("stalled", "complete")


class LosableJob(ActiveJob):
    """Remembers that it was lost."""

    is_lost = False

    def lose(self) -> None:
        self.is_lost = True


async def test_progress_of_a_run_that_was_taken_away_tells_the_handler(
    q: Kue, kue_store: Store
) -> None:
    handle = await q.enqueue("email", attempts=3)
    lost = await claim_one(kue_store, lease=1, now=await kue_store.now())
    q.process("email", echo)
    await worked(q, handle)

    services = RunServices(kue_store, Settings(), None)
    active = LosableJob(lost, services.progress_sender)
    with pytest.raises(LeaseLost):
        await active.progress(1, 2)

    await until(lambda: active.is_lost)


async def test_a_worker_is_known_while_it_works(q: Kue, wire: Wire) -> None:
    q.process("email", 7, echo)

    async with q.work() as worker:
        await wire.until_answered("renew")
        [status] = await q.workers()
        assert (status.name, status.alive) == (worker.name, True)
        assert status.info["slots"] == {"email": 7}

    assert not any(status.alive for status in await q.workers())


async def test_upkeep_goes_on_beside_the_work(q: Kue, wire: Wire) -> None:
    q.process("email", echo)

    async with q.work():
        await wire.until_called("tend", 3)
