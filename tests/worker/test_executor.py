"""Running one job: whatever happens becomes an ending."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, Never, cast

import pytest

from kue import Cancel, Fail, Release, Retry
from kue.model.backoff import Fixed
from kue.model.job import (
    Cancelled,
    Completed,
    Ending,
    Failed,
    Job,
    Released,
    Retried,
    Spec,
    State,
)
from kue.worker import ActiveJob, Handler
from kue.worker.active_run import ActiveRun
from kue.worker.executor import execute
from kue.worker.run_services import RunServices

STARTED = 1_800_000_000_000


class Silent:
    """`execute` writes nothing down: its runs need nobody who does."""

    progress_sender = None


def run_of(attempt: int = 1, timeout: int = 0, expires: int = 0) -> ActiveRun:
    job = Job(
        id=7,
        type="email",
        state=State.ACTIVE,
        priority=0,
        created_at=STARTED,
        expires=expires,
        spec=Spec(max_attempts=3, backoff=Fixed(500), timeout=timeout),
        token=f"{STARTED}000:{STARTED}:{attempt}:w1:lane.1",
    )
    return ActiveRun(job, cast("RunServices", Silent()), cast("Any", None))


async def ending_of(exc: BaseException, run: ActiveRun | None = None) -> Any:
    async def handler(job: ActiveJob) -> Never:
        raise exc

    return await execute(run or run_of(), handler)


async def test_what_a_handler_returns_is_the_result() -> None:
    async def handler(job: ActiveJob) -> dict[str, Any]:
        return {"attempt": job.attempt, "fence": job.fence, "id": job.id}

    ending = await execute(run_of(attempt=2), handler)

    assert isinstance(ending, Completed)
    assert bytes(ending.result) == b'{"attempt":2,"fence":1800000000000000,"id":7}'


async def test_nothing_returned_is_a_good_end() -> None:
    async def handler(job: ActiveJob) -> None:
        pass

    assert await execute(run_of(), handler) == Completed()


async def test_an_exception_spends_the_attempt() -> None:
    ending = await ending_of(ValueError("oops"))

    assert isinstance(ending, Retried)
    assert ending.delay == 500
    assert (ending.error.kind, ending.error.message) == ("ValueError", "oops")


async def test_the_last_attempt_fails_for_good() -> None:
    ending = await ending_of(ValueError("oops"), run_of(attempt=3))

    assert isinstance(ending, Failed)


async def test_the_stack_begins_with_the_users_own_code() -> None:
    ending = await ending_of(ValueError("oops"))

    first, second = ending.error.stack.splitlines()[:2]
    assert first == "Traceback (most recent call last):"
    assert second.endswith("in handler")
    assert "kue/worker" not in ending.error.stack


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("do not ask")


@pytest.mark.parametrize(
    "exc",
    [
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
        Unspeakable(),
        ValueError("x" * 10_000_000),
        ValueError("\udcff"),
        ExceptionGroup("two", [ValueError("a"), KeyError("b")]),
        RecursionError("deep"),
        TimeoutError(),
    ],
    ids=lambda exc: type(exc).__name__,
)
async def test_whatever_is_raised_ends_only_the_run(exc: BaseException) -> None:
    ending = await ending_of(exc)

    assert isinstance(ending, Retried)
    assert ending.error.kind == type(exc).__qualname__
    assert len(ending.error.message) < 5_000


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (object(), "result: cannot be written as JSON"),
        ({"ratio": float("inf")}, "result.ratio: is inf"),
        ("x" * 100_000, "result: is 100,002 bytes"),
    ],
    ids=["object", "infinity", "large"],
)
async def test_a_result_that_cannot_be_kept_is_an_error(
    result: Any, message: str
) -> None:
    async def handler(job: ActiveJob) -> Any:
        return result

    ending = await execute(run_of(), handler)

    assert isinstance(ending, Retried)
    assert ending.error.kind == "BadPayload"
    assert ending.error.message.startswith(message)


# -- time limits -------------------------------------------------------------


async def test_a_run_past_its_timeout_is_cancelled_and_failed() -> None:
    was_cancelled = False

    async def handler(job: ActiveJob) -> None:
        nonlocal was_cancelled
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled = True
            raise

    ending = await execute(run_of(timeout=20), handler)

    assert was_cancelled
    assert isinstance(ending, Retried)
    assert ending.error.kind == "RunTimeout"
    assert ending.error.message == "the run took longer than its timeout of 0.02 s"


async def test_a_run_is_ended_without_a_retry_when_its_job_expires() -> None:
    async def handler(job: ActiveJob) -> None:
        await asyncio.Event().wait()

    ending = await execute(run_of(expires=20, timeout=60_000), handler)

    assert isinstance(ending, Failed)
    assert ending.error.kind == "Expired"
    assert ending.error.message == (
        "the job expired while it ran, 20 ms after it was added"
    )
    assert "await asyncio.Event().wait()" in ending.error.stack


async def test_the_first_of_timeout_and_expiry_decides() -> None:
    async def handler(job: ActiveJob) -> None:
        await asyncio.Event().wait()

    ending = await execute(run_of(expires=60_000, timeout=20), handler)

    assert isinstance(ending, Retried)
    assert ending.error.kind == "RunTimeout"


async def test_a_timeout_error_of_the_handlers_own_is_not_ours() -> None:
    ending = await ending_of(TimeoutError("the bank is slow"), run_of(timeout=60_000))

    assert ending.error.message == "the bank is slow"


async def test_a_run_in_time_is_left_alone() -> None:
    async def handler(job: ActiveJob) -> int:
        await asyncio.sleep(0)
        return 1

    assert isinstance(await execute(run_of(timeout=60_000), handler), Completed)


# -- steering ----------------------------------------------------------------


@pytest.mark.parametrize("after", [2, "2s", timedelta(seconds=2)])
async def test_retry_says_when(after: Any) -> None:
    ending = await ending_of(Retry("busy", after=after))

    assert (ending.delay, ending.error.message) == (2_000, "busy")
    assert isinstance(ending, Retried)


async def test_retry_without_a_time_waits_as_the_backoff_says() -> None:
    ending = await ending_of(Retry("busy"))

    assert isinstance(ending, Retried)
    assert ending.delay == 500


async def test_retry_has_no_more_attempts_than_any_other_failure() -> None:
    ending = await ending_of(Retry("busy"), run_of(attempt=3))

    assert isinstance(ending, Failed)


async def test_release_spends_no_attempt() -> None:
    ending = await ending_of(Release("1m", reason="not now"), run_of(attempt=3))

    assert ending == Released(60_000, counts=False, reason="not now")


async def test_release_until_a_moment_is_by_the_stores_clock() -> None:
    moment = datetime.fromtimestamp(STARTED / 1000 + 60, UTC)

    ending = await ending_of(Release(moment))

    assert isinstance(ending, Released)
    assert 59_000 < ending.delay <= 60_000


async def test_release_until_a_moment_that_was_is_at_once() -> None:
    moment = datetime.fromtimestamp(STARTED / 1000 - 60, UTC)

    assert (await ending_of(Release(moment))).delay == 0


async def test_a_release_that_counts_needs_an_attempt() -> None:
    assert isinstance(await ending_of(Release(counts=True)), Released)
    last = await ending_of(Release(counts=True), run_of(attempt=3))
    assert isinstance(last, Failed)


async def test_fail_does_not_try_again() -> None:
    ending = await ending_of(Fail("the card is stolen"))

    assert isinstance(ending, Failed)
    assert (ending.error.kind, ending.error.message) == ("Fail", "the card is stolen")


async def test_fail_from_an_error_fails_with_that_error_unless_it_has_a_text() -> None:
    async def ending(exc: Fail) -> Any:
        exc.__cause__ = KeyError("card")
        return await ending_of(exc)

    assert (await ending(Fail())).error.summary == "KeyError: 'card'"
    assert (await ending(Fail("stolen"))).error.summary == "Fail: stolen"


async def test_cancel_ends_the_job_as_cancelled() -> None:
    assert await ending_of(Cancel("not needed")) == Cancelled("not needed")


@pytest.mark.parametrize(
    "exc",
    [
        Retry(after=-1),
        Retry(after="soon"),
        Release(-5),
        Release(datetime(2030, 1, 1)),  # noqa: DTZ001 - no time zone is the point
    ],
)
async def test_steering_by_nonsense_is_an_error(exc: Exception) -> None:
    ending = await ending_of(exc)

    assert isinstance(ending, Retried)
    assert ending.error.kind == "ValueError"


# -- interruption ------------------------------------------------------------


async def interrupted(handler: Handler, instead: Ending | None) -> Ending | None:
    """Interrupt a run that has begun, and return how it ended."""
    run = run_of()
    ending: asyncio.Future[Ending | None] = asyncio.get_running_loop().create_future()

    async def executing() -> None:
        ending.set_result(await execute(run, handler))

    task = asyncio.create_task(executing())
    # The handler takes its first step, up to where it waits.
    await asyncio.sleep(0)
    run.interrupt(instead)
    run.interrupt(instead)
    await task
    return ending.result()


async def wait_for_ever(job: ActiveJob) -> None:
    await asyncio.Event().wait()


async def stumble(job: ActiveJob) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise RuntimeError("even cleaning up failed")


async def finish_anyway(job: ActiveJob) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        # Cancelled once, however often it was interrupted.
        await asyncio.sleep(0)


@pytest.mark.parametrize("handler", [wait_for_ever, stumble])
async def test_an_interrupted_run_ends_as_told(handler: Handler) -> None:
    assert await interrupted(handler, Cancelled("no")) == Cancelled("no")


async def test_an_interrupted_run_that_ends_well_first_has_ended_well() -> None:
    assert await interrupted(finish_anyway, Cancelled("no")) == Completed()


@pytest.mark.parametrize("handler", [wait_for_ever, stumble, finish_anyway])
async def test_a_lost_run_has_nothing_to_say(handler: Handler) -> None:
    assert await interrupted(handler, None) is None


async def test_the_first_reason_stands() -> None:
    run = run_of()
    run.interrupt(Cancelled("someone asked"))

    run.interrupt(Released(reason="the worker stopped"))

    assert run.forced == Cancelled("someone asked")


async def test_a_lost_run_is_lost_whatever_was_said_before_or_after() -> None:
    run = run_of()
    run.interrupt(Cancelled("someone asked"))

    run.interrupt(None)
    run.interrupt(Released(reason="the worker stopped"))

    assert run.is_interrupted
    assert run.forced is None


async def test_a_run_interrupted_before_it_began_is_not_begun() -> None:
    run = run_of()
    run.interrupt(Released(reason="stop"))

    async def handler(job: ActiveJob) -> None:
        pytest.fail("the handler was called")

    assert await execute(run, handler) == Released(reason="stop")
