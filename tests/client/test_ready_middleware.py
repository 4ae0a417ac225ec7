"""Ready-made middleware: time windows, conditions, and errors that end a run."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Never, cast

import pytest

import kue
from kue import ActiveJob, JobHandle, Kue, State
from kue.client.hooks import Middleware, compose
from kue.client.ready_middleware import MIN_PAUSE_MS
from kue.model.backoff import Fixed
from kue.model.job import (
    Completed,
    Ending,
    Error,
    Failed,
    Job,
    Released,
    Retried,
    Spec,
)
from kue.worker.executor import RunEnded, ending_of
from kue.worker.pools.child_names import class_names
from tests.support.patience import PATIENCE_SECONDS, eventually
from tests.worker import child_tasks
from tests.worker.child_tasks import ProviderDown, Timeout503
from tests.worker.working import worked

#: Wednesday, 18 November 2026, 12:00 in Berlin.
NOON = 1_794_999_600_000
HOUR = 3_600_000


def active(now: int = NOON, **spec: Any) -> ActiveJob:
    """Return a job that was claimed at *now*."""
    job = Job(
        id=7,
        type="call",
        state=State.ACTIVE,
        created_at=now,
        spec=Spec(**{"max_attempts": 3, "backoff": Fixed(5_000), **spec}),
        token=f"{now}000:{now}:1:w1:lane.1",
    )
    return ActiveJob(job, cast("Any", None))


async def ended(
    *layers: Middleware, job: ActiveJob | None = None, raised: Exception | None = None
) -> Ending:
    """Return how a run ends inside of *layers*."""
    job = job or active()

    async def handler(job: ActiveJob) -> str:
        if raised is not None:
            raise raised
        return "ran"

    try:
        return Completed(await compose(layers, handler)(job))
    except Exception as exc:
        return ending_of(job, exc)


async def released(job: JobHandle[Any]) -> Job:
    """Wait until the job was released (or has ended, after all), and return it."""

    async def look() -> Job | None:
        seen = await job.refresh()
        return seen if seen.releases or seen.state.is_final else None

    return cast("Job", await eventually(look))


def is_true(job: ActiveJob) -> bool:
    return True


@pytest.mark.parametrize(
    ("middleware", "kind", "reason"),
    [
        (kue.skip_when(is_true), Completed, "is_true was true"),
        (kue.release_when(is_true, "5m"), Released, "is_true was true"),
        (kue.window("9:00-10:00", tz="Europe/Berlin"), Released, "outside of 9:00-10"),
    ],
    ids=["skip_when", "release_when", "window"],
)
async def test_a_run_ends_before_its_handler_is_called(
    middleware: Middleware, kind: type[Completed | Released], reason: str
) -> None:
    ending = await ended(middleware, raised=AssertionError("it was called"))

    assert isinstance(ending, kind)
    assert ending.reason.startswith(reason)


# -- windows -------------------------------------------------------------------


async def test_inside_of_its_window_a_job_runs() -> None:
    assert await ended(kue.window("9:00-20:00", tz="Europe/Berlin")) == Completed("ran")


async def test_outside_of_its_window_a_job_waits_for_the_opening() -> None:
    window = kue.window("9:00-20:00", tz="Europe/Berlin", days="mon-fri")

    ending = await ended(window, job=active(NOON + 9 * HOUR))

    assert isinstance(ending, Released)
    assert not ending.counts
    # From 21:00 to 9:00, by the clock of the run.
    assert 12 * HOUR - 1_000 < ending.delay <= 12 * HOUR
    assert ending.reason == (
        "outside of mon-fri 9:00-20:00 Europe/Berlin; "
        "waits until 2026-11-19T09:00+01:00"
    )


def test_a_window_that_cannot_be_read_is_refused_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="'9-20' is not a time window"):
        kue.window("9-20", tz="Europe/Berlin")
    with pytest.raises(ValueError, match="time zone 'Berlin' is not known"):
        kue.window("9:00-20:00", tz="Berlin")


async def test_a_job_that_waits_for_its_window_holds_no_slot_and_spends_no_attempt(
    q: Kue,
) -> None:
    opening = datetime.now(UTC).replace(second=0, microsecond=0) + timedelta(hours=2)
    closing = opening + timedelta(hours=1)
    times = f"{opening:%H:%M}-{closing:%H:%M}"

    @q.task(concurrency=1, attempts=1, middleware=[kue.window(times, tz="UTC")])
    async def call() -> None: ...

    @q.task(name="other", concurrency=1)
    async def other() -> str:
        return "ran"

    first, second = await call.enqueue(), await call.enqueue()
    async with q.work(concurrency=1):
        jobs = [await released(job) for job in (first, second)]
        beside = await other.enqueue()
        assert await beside.result(timeout=PATIENCE_SECONDS) == "ran"

    for job in jobs:
        assert (job.state, job.attempts, job.releases) == (State.DELAYED, 0, 1)
        assert job.promote_at is not None
        # The release is settled a moment after it was decided.
        assert 0 <= job.promote_at - opening.timestamp() * 1000 < 60_000
        assert job.history[-1].reason.startswith(f"outside of {times} UTC; waits until")


# -- conditions ----------------------------------------------------------------


async def is_paid(job: ActiveJob) -> bool:
    return job.type == "call"


@pytest.mark.parametrize("is_true", [True, False])
async def test_a_run_is_skipped_when_a_condition_is_true(is_true: bool) -> None:
    ending = await ended(kue.skip_when(lambda job: is_true, reason="a holiday"))

    assert ending == (Completed(reason="a holiday") if is_true else Completed("ran"))


@pytest.mark.parametrize("is_true", [True, False])
async def test_a_run_is_released_when_a_condition_is_true(is_true: bool) -> None:
    ending = await ended(kue.release_when(lambda job: is_true, "5m", reason="busy"))

    assert ending == (Released(300_000, reason="busy") if is_true else Completed("ran"))


async def test_a_condition_may_be_async_and_its_name_is_the_reason() -> None:
    assert await ended(kue.skip_when(is_paid)) == Completed(reason="is_paid was true")
    assert await ended(kue.release_when(is_paid, 1)) == Released(
        1_000, reason="is_paid was true"
    )


async def test_a_condition_that_raises_fails_the_attempt() -> None:
    def broken(job: ActiveJob) -> bool:
        raise OSError("no calendar")

    ending = await ended(kue.skip_when(broken))

    assert isinstance(ending, Retried)
    assert ending.error.summary == "OSError: no calendar"


def test_a_delay_that_makes_no_sense_is_refused_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="delay 'soon' cannot be read"):
        kue.release_when(is_paid, "soon")
    with pytest.raises(ValueError, match="delay must not be negative"):
        kue.not_counted(OSError, delay=-1)


async def test_conditions_around_all_jobs_are_the_queues(q: Kue) -> None:
    q.middleware(kue.skip_when(lambda job: "skip" in job.tags, reason="told to"))

    @q.task
    async def call() -> str:
        return "ran"

    skipped, ran = await call.options(tags=["skip"]).enqueue(), await call.enqueue()
    async with q.work():
        assert await ran.result(timeout=PATIENCE_SECONDS) == "ran"
        assert await skipped.result(timeout=PATIENCE_SECONDS) is None

    assert (await skipped.refresh()).history[-1].reason == "told to"


# -- errors that fail at once --------------------------------------------------


async def test_an_error_to_fail_on_leaves_attempts_unused() -> None:
    ending = await ended(kue.fail_on(KeyError, OSError), raised=TimeoutError("slow"))

    assert isinstance(ending, Failed)
    assert ending.error.summary == "TimeoutError: slow"
    assert "in handler" in ending.error.stack


async def test_other_errors_are_retried() -> None:
    ending = await ended(kue.fail_on(KeyError), raised=OSError("no route"))

    assert isinstance(ending, Retried)


@pytest.mark.parametrize("make", [kue.fail_on, kue.not_counted])
async def test_what_a_handler_decides_is_not_an_error(make: Any) -> None:
    for raised in (kue.Skip("done"), kue.Release(9, reason="later")):
        assert await ended(make(Exception), raised=raised) == await ended(raised=raised)


@pytest.mark.parametrize("make", [kue.fail_on, kue.not_counted])
@pytest.mark.parametrize("kind", ["ValueError", ValueError("x"), KeyboardInterrupt, 5])
def test_only_classes_of_exceptions_are_taken(make: Any, kind: Any) -> None:
    with pytest.raises(TypeError, match="takes classes of exceptions, such as ValueE"):
        make(OSError, kind)
    with pytest.raises(TypeError, match=r"classes of exceptions, .* not None"):
        make()


def test_how_a_handler_ends_its_run_cannot_be_chosen_as_an_error() -> None:
    with pytest.raises(TypeError, match="is for errors, and Skip is how a handler"):
        kue.fail_on(kue.Skip)


# -- errors that are not counted -----------------------------------------------


async def test_an_error_that_is_not_counted_releases_the_job_and_is_the_reason() -> (
    None
):
    after_backoff = await ended(kue.not_counted(OSError), raised=TimeoutError("slow"))
    after_delay = await ended(
        kue.not_counted(OSError, delay="1m"), raised=TimeoutError("slow")
    )

    assert after_backoff == Released(5_000, reason="TimeoutError: slow")
    assert after_delay == Released(60_000, reason="TimeoutError: slow")


async def test_without_backoff_there_is_a_pause_all_the_same() -> None:
    """Nothing else limits how many follow each other."""
    ending = await ended(
        kue.not_counted(OSError), job=active(backoff=None), raised=OSError("no route")
    )

    assert ending == Released(MIN_PAUSE_MS, reason="OSError: no route")


async def test_the_last_attempt_is_not_spent_either() -> None:
    ending = await ended(
        kue.not_counted(OSError), job=active(max_attempts=1), raised=OSError("x")
    )

    assert isinstance(ending, Released)


async def test_when_it_is_too_late_for_a_retry_the_job_fails_with_the_error() -> None:
    ending = await ended(
        kue.not_counted(OSError, delay="1h"),
        job=active(retry_for=60_000),
        raised=OSError("no route"),
    )

    assert isinstance(ending, Failed)
    assert ending.error.summary == "OSError: no route"


# -- handlers anywhere, on every store -----------------------------------------


def call_here(kind: str) -> Never:
    child_tasks.call_provider(kind)


async def call_on_the_loop(kind: str) -> Never:
    child_tasks.call_provider(kind)


ANYWHERE = pytest.mark.parametrize(
    ("function", "execution"),
    [
        (call_on_the_loop, "loop"),
        (call_here, "thread"),
        (child_tasks.call_provider, "process"),
    ],
    ids=["loop", "thread", "process"],
)


@ANYWHERE
async def test_a_task_fails_on_errors_and_those_derived_from_them(
    q: Kue, function: Any, execution: Any
) -> None:
    task = q.task(execution=execution, fail_on=(KeyError, ProviderDown))(function)

    job = await task.enqueue("down")
    with pytest.raises(kue.JobFailed, match="Timeout503: 503"):
        await worked(q, job)

    failed = await job.refresh()
    assert (failed.attempts, failed.max_attempts) == (1, 3)
    assert failed.error is not None
    assert "child_tasks.py" in failed.error.stack


@ANYWHERE
async def test_a_task_does_not_count_errors_and_those_derived_from_them(
    q: Kue, function: Any, execution: Any
) -> None:
    task = q.task(
        execution=execution, attempts=1, backoff="1h", not_counted=ProviderDown
    )(function)

    job = await task.enqueue("down")
    async with q.work():
        seen = await released(job)

    assert (seen.state, seen.attempts, seen.releases) == (State.DELAYED, 0, 1)
    assert seen.history[-1].reason == "Timeout503: 503"
    assert seen.history[-1].delay == HOUR
    assert seen.error is None


@ANYWHERE
async def test_a_task_that_fails_on_everything_may_still_decide_how_it_ends(
    q: Kue, function: Any, execution: Any
) -> None:
    task = q.task(execution=execution, fail_on=Exception)(function)
    job = await task.enqueue("skip")

    assert await worked(q, job) is None
    assert (await job.refresh()).history[-1].reason == "done before"


async def test_an_error_of_both_kinds_fails() -> None:
    q = Kue("memory://")

    @q.task(fail_on=Timeout503, not_counted=ProviderDown)
    async def call() -> Never:
        raise Timeout503("503")

    async with q:
        with pytest.raises(kue.JobFailed, match="Timeout503: 503"):
            await worked(q, await call.enqueue())


PROGRAM = """
import asyncio
import kue

q = kue.Kue({url!r})

class Down(Exception): ...

@q.task(execution="process", fail_on=Down)
def call() -> None:
    raise Down("503")

async def main():
    async with q:
        job = await call.enqueue()
        await q.run(burst=True)
        seen = await job.refresh()
        print(seen.state, seen.attempts, seen.error.summary)

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize("way", [["calls.py"], ["-m", "calls"]], ids=["file", "module"])
def test_classes_of_the_program_itself_are_recognised(
    tmp_path: Path, way: list[str]
) -> None:
    """A child knows the program by another name than its worker."""
    url = f"sqlite:///{tmp_path / 'kue.db'}"
    (tmp_path / "calls.py").write_text(PROGRAM.format(url=url))

    done = subprocess.run(
        [sys.executable, *way],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )

    assert (done.stdout, done.returncode) == ("failed 1 Down: 503\n", 0), done.stderr


# -- retry_on ------------------------------------------------------------------


async def test_only_the_errors_named_are_tried_again() -> None:
    layer = kue.retry_on(ConnectionError)

    assert isinstance(await ended(layer, raised=ConnectionResetError("x")), Retried)
    ending = await ended(layer, raised=ValueError("oops"))
    assert isinstance(ending, Failed)
    assert ending.error.kind == "ValueError"


@pytest.mark.parametrize("steering", [kue.Retry("later"), kue.Release(60)])
async def test_steering_is_no_error_to_compare(steering: Exception) -> None:
    ending = await ended(kue.retry_on(ConnectionError), raised=steering)

    assert isinstance(ending, Retried | Released)


async def test_retry_on_compares_classes_of_child_processes_by_name() -> None:
    layer = kue.retry_on(OSError)
    later = Retried(Error("ConnectionResetError", "x"), 5)
    reset = RunEnded(later, class_names(ConnectionResetError))

    assert await ended(layer, raised=reset) == later
    other = RunEnded(later, class_names(ValueError))
    assert await ended(layer, raised=other) == Failed(later.error)


def test_retry_on_takes_classes_of_errors() -> None:
    with pytest.raises(TypeError, match="retry_on takes classes of exceptions"):
        kue.retry_on("ValueError")  # type: ignore[arg-type]
