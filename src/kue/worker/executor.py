"""
Executing one job: whatever the handler does becomes an ending.

`execute` never raises and writes nothing to the store; the lane does, with retries.
Timeouts and cancellations interrupt the handler from `active_run`.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from kue.model import retry_policy
from kue.model.duration import Duration, epoch_ms, milliseconds
from kue.model.errors import Cancel, Fail, Release, Retry, Skip
from kue.model.job import Cancelled, Completed, Ending, Error, Failed, Released, Retried
from kue.model.payload import JSON
from kue.store.codec import error_of, result_of
from kue.worker.active_job import ActiveJob
from kue.worker.active_run import RunTimeout

if TYPE_CHECKING:
    from kue.model.job import Job
    from kue.worker.active_run import ActiveRun

Handler: TypeAlias = Callable[[ActiveJob], Awaitable[JSON]]

#: A handler that cancels itself failed: only its worker may cancel a run.
SELF_CANCELLED = Error("CancelledError", "the handler was cancelled from within")
_NOTHING = Completed()
#: Frames in this folder are Kue's, not the handler's.
_OURS = str(Path(__file__).parent.parent)


class RunEnded(Exception):
    """The handler ran in a child process and did not return; carries its *ending*."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(_message_of(ending))
        self.ending = ending


async def execute(
    run: ActiveRun, handler: Callable[[ActiveRun], Awaitable[JSON]]
) -> Ending | None:
    """
    Run *handler* and return how it ended; None if the run was lost.

    An interrupted run ends as `ActiveRun.interrupt` demands, unless the handler
    returned first.
    """
    if not run.enter():
        return forced_ending(run)
    ending: Ending | None
    try:
        ending = ending_of_result(await handler(run))
    # Every exception, SystemExit included: a handler ends its run, never the worker.
    except BaseException as exc:
        is_forced = run.is_interrupted
        ending = forced_ending(run, exc) if is_forced else ending_of(run, exc)
    finally:
        run.leave()
    return None if run.is_lost else ending


def ending_of_result(result: JSON) -> Ending:
    return _NOTHING if result is None else Completed(result_of(result))


def forced_ending(run: ActiveRun, exc: BaseException | None = None) -> Ending | None:
    """Return how an interrupted run ends; *exc* has the traceback of where it was."""
    if not isinstance(run.forced, RunTimeout):
        return run.forced
    trace = None if exc is None else exc.__traceback__
    return retry_policy.after_error(run.job, _error(run.forced.with_traceback(trace)))


def ending_of(active: ActiveJob, exc: BaseException) -> Ending:
    """Return how a run ends if its handler raised *exc*."""
    try:
        return _ending_for(active, exc)
    except Exception as broken:
        # Its arguments make no sense, such as Retry(after=-1).
        return retry_policy.after_error(active.job, _error(broken))


def _ending_for(active: ActiveJob, exc: BaseException) -> Ending:
    match exc:
        case RunEnded():
            return exc.ending
        case Retry():
            return _retried(active.job, _error(exc), exc.after)
        case Release():
            return _released(active, exc)
        case Fail():
            return Failed(_error(exc))
        case Cancel():
            return Cancelled(error_of(exc).message)
        case Skip():
            return Completed(reason=error_of(exc).message)
        case asyncio.CancelledError():
            return retry_policy.after_error(active.job, SELF_CANCELLED)
        case _:
            return retry_policy.after_error(active.job, _error(exc))


def _retried(job: Job, error: Error, after: Duration | None) -> Ending:
    if after is None:
        return retry_policy.after_error(job, error)
    delay = milliseconds(after, field="after")
    spent = job.attempts >= job.max_attempts
    return Failed(error) if spent else Retried(error, delay)


def _released(active: ActiveJob, exc: Release) -> Ending:
    if isinstance(exc.delay, datetime):
        delay = max(0, epoch_ms(exc.delay, field="delay") - active.now_ms)
    else:
        delay = milliseconds(exc.delay, field="delay")
    # A release that counts is an attempt, and attempts are limited.
    if exc.counts and active.job.attempts >= active.job.max_attempts:
        return Failed(_error(exc))
    return Released(delay, exc.counts, error_of(exc).message)


def _message_of(ending: Ending) -> str:
    match ending:
        case Failed(error=error) | Retried(error=error):
            return f"{error.kind}: {error.message}"
        case Released(reason=reason) | Cancelled(reason=reason):
            return reason
    return ""


def _error(exc: BaseException) -> Error:
    return error_of(exc, _stack(exc))


def _stack(exc: BaseException) -> str:
    # The first frames are ours; the reader of the stack looks for their own.
    trace = exc.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    try:
        lines = traceback.format_exception(type(exc), exc, trace)
    except BaseException:
        # An exception that cannot be formatted must still end its run.
        return ""
    return "".join(lines)
