"""
Running one job: whatever happens becomes an ending.

`execute` never raises and writes nothing down; the loop does that, and keeps trying.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from kue import policy
from kue.duration import Duration, epoch_ms, milliseconds
from kue.errors import Cancel, Fail, Release, Retry
from kue.job import Cancelled, Completed, Ending, Error, Failed, Released, Retried
from kue.payload import JSON
from kue.store.codec import error_of, result_of
from kue.worker.active import ActiveJob

if TYPE_CHECKING:
    from kue.job import Job

Handler: TypeAlias = Callable[[ActiveJob], Awaitable[JSON]]

#: A handler that cancels itself failed: only its worker may cancel a run.
SELF_CANCELLED = Error("CancelledError", "the handler was cancelled from within")
_NOTHING = Completed()


async def execute(run: ActiveJob, handler: Handler) -> Ending | None:
    """
    Run *handler* and return how it ended; None when that is no longer ours to say.

    An interrupted run ends as it was told to, unless the handler returned first.
    """
    if not run.enter():
        return run.instead
    ending: Ending | None
    try:
        ending = await _complete(run, handler)
    # Every exception, SystemExit included: a handler ends its run, never the worker.
    except BaseException as exc:
        ending = run.instead if run.is_interrupted else _ending_of(run, exc)
    return None if run.is_lost else ending


async def _complete(run: ActiveJob, handler: Handler) -> Ending:
    timeout = run.job.spec.timeout
    result = await (_in_time(run, handler, timeout) if timeout else handler(run))
    return _NOTHING if result is None else Completed(result_of(result))


async def _in_time(run: ActiveJob, handler: Handler, timeout: int) -> JSON:
    try:
        async with asyncio.timeout(timeout / 1000) as limit:
            return await handler(run)
    except TimeoutError:
        # A TimeoutError of the handler's own making is an error like any other.
        if not limit.expired():
            raise
    raise RunTimeout(f"the run took longer than its timeout of {timeout / 1000:g} s")


class RunTimeout(Exception):
    """A run took longer than its job's timeout; the name is what the error shows."""


def _ending_of(run: ActiveJob, exc: BaseException) -> Ending:
    try:
        return _steered(run, exc)
    except Exception as broken:
        # What it steers by makes no sense, such as Retry(after=-1).
        return policy.after_error(run.job, _error(broken))


def _steered(run: ActiveJob, exc: BaseException) -> Ending:
    match exc:
        case Retry():
            return _retried(run.job, _error(exc), exc.after)
        case Release():
            return _released(run, exc)
        case Fail():
            return Failed(_error(exc))
        case Cancel():
            return Cancelled(error_of(exc).message)
        case asyncio.CancelledError():
            return policy.after_error(run.job, SELF_CANCELLED)
        case _:
            return policy.after_error(run.job, _error(exc))


def _retried(job: Job, error: Error, after: Duration) -> Ending:
    delay = milliseconds(after, field="after")
    spent = job.attempts >= job.max_attempts
    return Failed(error) if spent else Retried(error, delay)


def _released(run: ActiveJob, exc: Release) -> Ending:
    if isinstance(exc.delay, datetime):
        delay = max(0, epoch_ms(exc.delay, field="delay") - run.now_ms)
    else:
        delay = milliseconds(exc.delay, field="delay")
    # A release that counts is an attempt, and there are only so many.
    if exc.counts and run.job.attempts >= run.job.max_attempts:
        return Failed(_error(exc))
    return Released(delay, exc.counts, error_of(exc).message)


def _error(exc: BaseException) -> Error:
    return error_of(exc, _stack(exc))


def _stack(exc: BaseException) -> str:
    # The first frames are this module's; whoever reads the stack looks for their own.
    trace = exc.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    try:
        lines = traceback.format_exception(type(exc), exc, trace)
    except Exception:
        # An exception that cannot even be shown must still end its run.
        return ""
    return "".join(lines)
