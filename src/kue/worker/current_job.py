"""Current job: the job that the calling code runs for."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kue.worker.active_job import ActiveJob

CURRENT: ContextVar[ActiveJob | None] = ContextVar("kue_current_job", default=None)


def current_job() -> ActiveJob:
    """
    Return the running job, in a handler or in anything it calls.

    Raises:
        RuntimeError: No job runs here.
    """
    active = CURRENT.get()
    if active is None:
        raise RuntimeError(
            "there is no current job here: current_job() works inside a handler and "
            "in what it calls, not in threads that the handler starts by itself"
        )
    return active
