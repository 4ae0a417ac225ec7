"""How a job ended, read from the job: its last event, its result or its error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.errors import JobCancelled, JobFailed
from kue.model.events import Event, Kind
from kue.model.job import Error, State

if TYPE_CHECKING:
    from typing import Any

    from kue.model.job import Job
    from kue.model.payload import JSON

_KINDS = {
    State.COMPLETE: Kind.COMPLETE,
    State.FAILED: Kind.FAILED,
    State.CANCELLED: Kind.CANCELLED,
}


def final_event(job: Job) -> Event | None:
    """Return the event of the end of *job*; None if it has not ended."""
    kind = _KINDS.get(job.state)
    if kind is None:
        return None
    return Event(
        kind=kind,
        job_id=job.id,
        type=job.type,
        at=job.updated_at,
        attempt=job.attempts,
        detail=_detail(job),
    )


def result_of(job: Job) -> JSON:
    """
    Return the result of an ended job.

    Raises:
        JobFailed, JobCancelled: It has none, for that reason.
    """
    if job.state is State.FAILED:
        error = _error(job)
        raise JobFailed(job.id, error.kind, error.message)
    if job.state is State.CANCELLED:
        raise JobCancelled(job.id, _reason(job))
    return job.result


def _detail(job: Job) -> dict[str, Any]:
    if job.state is State.FAILED:
        error = _error(job)
        return {"kind": error.kind, "message": error.message}
    return {"reason": _reason(job)} if job.state is State.CANCELLED else {}


def _error(job: Job) -> Error:
    return job.error or Error("Unknown", "the store kept no error")


def _reason(job: Job) -> str:
    return job.history[-1].reason if job.history else ""
