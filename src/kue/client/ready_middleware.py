"""Ready-made middleware: time windows, conditions, and errors that end a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from kue.aio.callbacks import awaited
from kue.client.exception_kinds import (
    ExceptionKinds,
    as_tuple,
    check_kinds,
    is_one_of,
    is_steering,
    summary,
)
from kue.model.duration import Duration, milliseconds
from kue.model.errors import Fail, Release, Skip
from kue.model.retry_policy import retry_delay_ms
from kue.model.time_window import ALL_DAYS, TimeWindow

if TYPE_CHECKING:
    from kue.client.hooks import CallNext, Middleware
    from kue.model.payload import JSON
    from kue.worker.active_job import ActiveJob

#: May be a coroutine function.
Predicate: TypeAlias = Callable[["ActiveJob"], Awaitable[bool] | bool]
#: The shortest pause after a run that is not counted: nothing limits how many follow.
MIN_PAUSE_MS = 1000


def window(times: str, *, tz: str, days: str = ALL_DAYS) -> Middleware:
    """
    Run jobs only in a time window; others wait until it opens.

    A job that waits spends no attempt and holds no slot::

        @q.task(middleware=[kue.window("9:00-20:00", tz="Europe/Berlin")])
        async def call(number: str): ...

    Args:
        times: "9:00-20:00"; "22:00-6:00" is over midnight, and belongs to the day on
            which it opens; several are separated by commas.
        tz: The time zone, "Europe/Berlin".
        days: "mon-fri" or "sat,sun"; else every day.

    When clocks change, a time that does not exist is the first moment after it, and
    one that exists twice is the first.

    Raises:
        ValueError: It cannot be read, or the time zone is unknown.
    """
    hours = TimeWindow.parse(times, tz=tz, days=days)

    async def wait_for_opening(job: ActiveJob, call_next: CallNext) -> JSON:
        now = job.now_ms
        opens_at = hours.opens_at(now)
        if opens_at > now:
            moment = hours.local(opens_at)
            until = moment.isoformat(timespec="minutes")
            raise Release(
                moment, reason=f"outside of {hours.text}; waits until {until}"
            )
        return await call_next(job)

    return wait_for_opening


def skip_when(predicate: Predicate, *, reason: str = "") -> Middleware:
    """
    End a run as complete, without calling the handler, when *predicate(job)* is true.

    *predicate* may be a coroutine function; a plain one must not block.
    """
    why = reason or _was_true(predicate)

    async def skip(job: ActiveJob, call_next: CallNext) -> JSON:
        if await awaited(predicate(job)):
            raise Skip(why)
        return await call_next(job)

    return skip


def release_when(
    predicate: Predicate, delay: Duration, *, reason: str = ""
) -> Middleware:
    """
    Release a job for *delay* when *predicate(job)* is true: no attempt is spent.

    *predicate* is as for `skip_when`.

    Raises:
        ValueError, TypeError: *delay* makes no sense.
    """
    milliseconds(delay, field="delay")
    why = reason or _was_true(predicate)

    async def release(job: ActiveJob, call_next: CallNext) -> JSON:
        if await awaited(predicate(job)):
            raise Release(delay, reason=why)
        return await call_next(job)

    return release


def fail_on(*kinds: type[Exception]) -> Middleware:
    """
    Fail a job at once when its run raises one of *kinds*: attempts left are not used.

    The error of the job is the one that was raised.  Handlers may run anywhere: for
    those in child processes classes are compared by name, bases included.

    Raises:
        TypeError: One of *kinds* is not a class of exceptions.
    """
    check_kinds(kinds, "fail_on")

    async def fail(job: ActiveJob, call_next: CallNext) -> JSON:
        try:
            return await call_next(job)
        except Exception as exc:
            if is_one_of(exc, kinds):
                raise Fail from exc
            raise

    return fail


def retry_on(*kinds: type[Exception]) -> Middleware:
    """
    Fail a job at once unless its run raises one of *kinds*, which is tried again.

    Only errors that the handler raises are compared: a timeout, a lost worker and
    `kue.Retry` are retried in any case.  Classes are compared as by `fail_on`.

    Raises:
        TypeError: One of *kinds* is not a class of exceptions.
    """
    check_kinds(kinds, "retry_on")

    async def fail_others(job: ActiveJob, call_next: CallNext) -> JSON:
        try:
            return await call_next(job)
        except Exception as exc:
            if is_one_of(exc, kinds) or is_steering(exc):
                raise
            raise Fail from exc

    return fail_others


def not_counted(*kinds: type[Exception], delay: Duration | None = None) -> Middleware:
    """
    Release a job when its run raises one of *kinds*: no attempt is spent.

    It runs again after *delay*, else after the job's backoff, but at least a second;
    without limit, unless the job has one (`expires`, `retry_until`).  The reason in its
    history is the error.  Classes are compared as by `fail_on`.

    Raises:
        TypeError: One of *kinds* is not a class of exceptions.
        ValueError: *delay* makes no sense.
    """
    check_kinds(kinds, "not_counted")
    given = None if delay is None else milliseconds(delay, field="delay")

    async def release(job: ActiveJob, call_next: CallNext) -> JSON:
        try:
            return await call_next(job)
        except Exception as exc:
            if not is_one_of(exc, kinds):
                raise
            wait = (
                max(MIN_PAUSE_MS, retry_delay_ms(job.job)) if given is None else given
            )
            raise Release(timedelta(milliseconds=wait), reason=summary(exc)) from exc

    return release


def for_errors(
    failing: ExceptionKinds, retried: ExceptionKinds, uncounted: ExceptionKinds
) -> tuple[Middleware, ...]:
    """Return the middleware of the options *fail_on*, *retry_on* and *not_counted*."""
    made = []
    if retried:
        # What is not counted is released before.
        made.append(retry_on(*as_tuple(retried)))
    if uncounted:
        made.append(not_counted(*as_tuple(uncounted)))
    # The innermost, which decides first.
    if failing:
        made.append(fail_on(*as_tuple(failing)))
    return tuple(made)


def _was_true(predicate: Predicate) -> str:
    return f"{getattr(predicate, '__name__', repr(predicate))} was true"
