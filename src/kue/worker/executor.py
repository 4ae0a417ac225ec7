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
from kue.model.duration import epoch_ms, milliseconds
from kue.model.errors import (
    Cancel,
    Fail,
    PayloadRefused,
    Release,
    Retry,
    Skip,
    SoftTimeout,
    Suspended,
)
from kue.model.job import (
    SEALED,
    Cancelled,
    Completed,
    Ending,
    Error,
    Failed,
    Released,
    Retried,
)
from kue.model.payload import JSON
from kue.model.sealed_payload import refusal_of
from kue.store.codec import error_of, result_of
from kue.worker.active_job import ActiveJob
from kue.worker.active_run import Expired, RunTimeout
from kue.worker.inputs import read_inputs

if TYPE_CHECKING:
    from kue.worker.active_run import ActiveRun

Handler: TypeAlias = Callable[[ActiveJob], Awaitable[JSON]]

#: A handler that cancels itself failed: only its worker may cancel a run.
SELF_CANCELLED = Error("CancelledError", "the handler was cancelled from within")
_NOTHING = Completed()
#: Frames in this folder are Kue's, not the handler's.
_OURS = str(Path(__file__).parent.parent)


class RunEnded(Exception):
    """
    The handler ran in a child process and did not return; carries its *ending*.

    *raised* names the class of what it raised, and the bases of that.
    """

    def __init__(self, ending: Ending, raised: tuple[str, ...] = ()) -> None:
        super().__init__(_message_of(ending))
        self.ending = ending
        self.raised = raised


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
    ending: Ending | None = None
    # Hot path: most jobs have none of what is checked here.
    spec = run.job.spec
    try:
        if spec.sealed == SEALED:
            raise refusal_of(spec)
        if spec.inputs:
            await read_inputs(run)
        if spec.retry_for or spec.retry_until:
            ending = retry_policy.before_run(run.job, run.now_ms)
        if ending is None:
            ending = ending_of_result(await handler(run))
        if run.outbox is not None:
            # Here, where the timeout of the run counts and an error fails it.
            await run.outbox.flush()
    # Every exception, SystemExit included: a handler ends its run, never the worker.
    except BaseException as exc:
        is_forced = run.is_interrupted
        if run.is_only_asked and isinstance(exc, asyncio.CancelledError):
            exc = SoftTimeout().with_traceback(exc.__traceback__)
        ending = forced_ending(run, exc) if is_forced else ending_of(run, exc)
    finally:
        run.leave()
    is_lost = run.is_interrupted and run.forced is None
    return None if is_lost else ending


def ending_of_result(result: JSON) -> Ending:
    return _NOTHING if result is None else Completed(result_of(result))


def forced_ending(run: ActiveRun, exc: BaseException | None = None) -> Ending | None:
    """Return how an interrupted run ends; *exc* has the traceback of where it was."""
    if not isinstance(run.forced, RunTimeout | Expired):
        return run.forced
    trace = None if exc is None else exc.__traceback__
    error = error_with_stack(run.forced.with_traceback(trace))
    if isinstance(run.forced, Expired):
        return Failed(error)
    return retry_policy.after_error(run.job, error, run.now_ms)


def ending_of(active: ActiveJob, exc: BaseException) -> Ending:
    """Return how a run ends if its handler raised *exc*."""
    try:
        return _ending_for(active, _suspension_in(exc) or exc)
    except Exception as broken:
        # Its arguments make no sense, such as Retry(after=-1).
        return retry_policy.after_error(
            active.job, error_with_stack(broken), active.now_ms
        )


def _ending_for(active: ActiveJob, exc: BaseException) -> Ending:
    match exc:
        case RunEnded():
            return exc.ending
        case Retry():
            return _retried(active, exc)
        case Release():
            return _released(active, exc)
        case Suspended():
            return Released(exc.delay, reason=str(exc), suspended=exc.field)
        case Fail():
            return Failed(_failure(exc))
        case PayloadRefused():
            return Failed(error_of(exc))
        case Cancel():
            return Cancelled(error_of(exc).message)
        case Skip():
            return Completed(reason=error_of(exc).message)
        case asyncio.CancelledError():
            return retry_policy.after_error(active.job, SELF_CANCELLED, active.now_ms)
        case _:
            return retry_policy.after_error(
                active.job, error_with_stack(exc), active.now_ms
            )


def _suspension_in(exc: BaseException) -> BaseException | None:
    """Return the suspension that a task group ended with, if nothing else failed."""
    if not isinstance(exc, BaseExceptionGroup) or exc.split(Suspended)[1] is not None:
        return None
    first = exc.exceptions[0]
    return _suspension_in(first) or first


def _retried(active: ActiveJob, exc: Retry) -> Ending:
    delay = None if exc.after is None else milliseconds(exc.after, field="after")
    return retry_policy.after_retry(
        active.job, error_with_stack(exc), delay, active.now_ms
    )


def _released(active: ActiveJob, exc: Release) -> Ending:
    if isinstance(exc.delay, datetime):
        delay = max(0, epoch_ms(exc.delay, field="delay") - active.now_ms)
    else:
        delay = milliseconds(exc.delay, field="delay")
    # Only a release that counts may fail the job, and needs a stack to show.
    own = error_with_stack(exc) if exc.counts else error_of(exc)
    released = Released(delay, exc.counts, own.message)
    return retry_policy.after_release(
        active.job, released, active.now_ms, own=own, cause=_cause(exc)
    )


def _failure(exc: Fail) -> Error:
    """Return the error of *exc*, or without a text that of what caused it."""
    return (None if exc.args else _cause(exc)) or error_with_stack(exc)


def _cause(exc: BaseException) -> Error | None:
    """Return the error that *exc* was raised from, if any."""
    match exc.__cause__:
        case None:
            return None
        case RunEnded(ending=Failed(error=error) | Retried(error=error)):
            return error
        case cause:
            return error_with_stack(cause)


def _message_of(ending: Ending) -> str:
    match ending:
        case Failed(error=error) | Retried(error=error):
            return f"{error.kind}: {error.message}"
        case Released(reason=reason) | Cancelled(reason=reason):
            return reason
    return ""


def error_with_stack(exc: BaseException) -> Error:
    """Return what a handler raised as data, with the stack from its own code on."""
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
