"""A job as JSON: the view that the REST API and the command line share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec

from kue.model.backoff import Backoff
from kue.model.job import Delivery, Error, Job, State

if TYPE_CHECKING:
    from kue.model.job import Attempt


class AttemptView(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a job's history: a run that ended, or something done to the job."""

    #: Null, like everything of a run, if no run was involved.
    attempt: int | None
    worker: str | None
    started_at: int | None
    at: int
    duration: int | None
    outcome: str
    result: Any
    error: Error | None
    delay: int
    reason: str
    #: "lease" or "ttl" if the run was ended because that expired.
    taken: str

    @classmethod
    def of(cls, attempt: Attempt) -> Self:
        """Return the view of an entry; the token is left out, as in a `JobView`."""
        run = attempt.run
        return cls(
            attempt=run and run.attempt,
            worker=run and run.worker,
            started_at=run and run.started_at,
            at=attempt.at,
            duration=attempt.duration if run else None,
            outcome=attempt.outcome,
            result=attempt.result,
            error=attempt.error,
            delay=attempt.delay,
            reason=attempt.reason,
            taken=attempt.taken,
        )


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it is now; times are Unix ms, durations ms."""

    id: int
    address_id: str
    type: str
    state: State
    priority: int
    data: Any
    attempts: int
    max_attempts: int
    stalls: int
    progress: int
    progress_data: Any
    result: Any
    error: Error | None
    #: The fingerprint of a failed job's error.
    fingerprint: str | None
    worker: str | None
    held: str
    cancelling: bool
    created_at: int
    updated_at: int
    started_at: int | None
    promote_at: int | None
    ended_at: int | None
    failed_at: int | None
    expires_at: int | None
    duration: int | None
    delay: int
    backoff: Backoff | None
    timeout: int
    ttl: int
    expires: int
    unique: str | None
    unique_for: int
    group: str | None
    tags: tuple[str, ...]
    parent: int | None
    after: tuple[int, ...]
    after_any: bool
    remove_on_complete: bool
    retention: int | None
    delivery: Delivery
    meta: dict[str, str]

    @classmethod
    def of(cls, job: Job) -> Self:
        """
        Return the view of *job*.

        The token is left out: its holder may end the run.
        """
        return cls(**_fields(job))


class JobDetail(JobView, frozen=True, kw_only=True):
    """A job as it is now, with its history."""

    history: list[AttemptView]

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return the view of *job* with everything there is to know about it."""
        return cls(**_fields(job), history=[AttemptView.of(one) for one in job.history])


#: Fields that have the name of an attribute of the job; the others are its spec's.
_OF_JOB = [name for name in JobView.__struct_fields__ if hasattr(Job, name)]
_OF_SPEC = [name for name in JobView.__struct_fields__ if not hasattr(Job, name)]


def _fields(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in _OF_JOB} | {
        name: getattr(job.spec, name) for name in _OF_SPEC
    }
