"""Circuit breaker: middleware that lets jobs wait while a provider is down."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kue.client.circuit_monitor import monitor_of
from kue.client.exception_kinds import (
    ExceptionKinds,
    as_tuple,
    check_kinds,
    is_one_of,
    is_steering,
    summary,
)
from kue.model.circuit import CircuitPolicy
from kue.model.errors import Suspended
from kue.model.names import check_path_name
from kue.worker.active_run import ActiveRun, RunTimeout
from kue.worker.executor import RunEnded

if TYPE_CHECKING:
    from kue.client.hooks import CallNext, Middleware
    from kue.model.duration import Duration
    from kue.model.payload import JSON
    from kue.worker.active_job import ActiveJob


def circuit_breaker(
    name: str,
    *,
    on: ExceptionKinds,
    failures: int = 5,
    within: Duration = "1m",
    open_for: Duration = "5m",
    max_open_for: Duration | None = None,
) -> Middleware:
    """
    Let jobs wait while runs fail with errors of the kinds *on*, such as a provider's.

    After that many *failures* *within* some time the circuit opens: jobs are released
    until *open_for* has passed, without spending an attempt.  Then one job runs as a
    probe.  If it succeeds, the circuit closes and all run again; if it fails, the
    circuit opens again, each time for twice as long, up to *max_open_for*::

        stripe = kue.circuit_breaker("stripe", on=(ProviderDown, TimeoutError))

        @q.task(middleware=[stripe])
        async def pay(order: int): ...

    All workers of the store, and all tasks with a circuit of that name, share it.  What
    an error costs the job that raised it is as without the circuit.

    Args:
        name: Of the circuit, as `Kue.circuits` shows it.
        on: A class of exceptions, or several; compared as by `fail_on`.  With
            `TimeoutError`, runs that take longer than their job's timeout count, too.
        max_open_for: By default four times *open_for*.

    Raises:
        TypeError: One of *on* is not a class of exceptions.
        ValueError: A number or a duration makes no sense.
    """
    check_path_name(name, what="circuit name")
    kinds = as_tuple(on)
    check_kinds(kinds, "circuit_breaker")
    policy = CircuitPolicy.of(
        failures=failures,
        within=within,
        open_for=open_for,
        max_open_for=max_open_for,
    )

    async def wait_while_open(job: ActiveJob, call_next: CallNext) -> JSON:
        # Only the run of a worker has a store that others share.
        if not isinstance(job, ActiveRun):
            return await call_next(job)
        monitor = monitor_of(job, name)
        is_probe = await monitor.admit(job)
        try:
            result = await call_next(job)
        except (Exception, asyncio.CancelledError, Suspended) as exc:
            error = _failure(job, exc, kinds)
            if error is not None:
                await monitor.report_failure(job, policy, error)
            elif is_probe and _is_answer(job, exc):
                await monitor.report_success(job)
            elif is_probe:
                await monitor.drop_probe(job)
            raise
        if is_probe:
            await monitor.report_success(job)
        return result

    return wait_while_open


def _failure(
    run: ActiveRun, exc: BaseException, kinds: tuple[type[Exception], ...]
) -> str | None:
    """Return the error of a run that counts for the circuit; None for any other."""
    if run.is_interrupted:
        timed_out = isinstance(run.forced, RunTimeout)
        is_meant = timed_out and issubclass(TimeoutError, kinds)
        return f"RunTimeout: {run.forced}" if is_meant else None
    # `not_counted` and `fail_on` raise theirs from the error.
    error = exc.__cause__ if is_steering(exc) else exc
    if isinstance(error, Exception) and is_one_of(error, kinds):
        return summary(error)
    return None


def _is_answer(run: ActiveRun, exc: BaseException) -> bool:
    """
    Return whether an error of another kind shows that the provider answers.

    It does not if the run was interrupted, its child process died, or it was decided
    otherwise how it ends: by a time window, say, before the provider was called.
    """
    if isinstance(exc, RunEnded) and not exc.raised:
        return False
    return not run.is_interrupted and not is_steering(exc)
