"""A job as JSON: the view that the REST API and the command line share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.model.backoff import Backoff
from kue.model.job import Delivery, Error, State, UniqueUntil
from kue.model.view_struct import View

if TYPE_CHECKING:
    from kue.model.job import Attempt, Job


class AttemptView(View, frozen=True, kw_only=True):
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
    #: Whether a released run spent an attempt.
    counts: bool
    reason: str
    #: What the job slept or waited for since, such as "sleep:1"; empty if nothing.
    suspended: str
    #: "lease" or "ttl" if the run was ended because that expired.
    taken: str


class JobView(View, frozen=True, kw_only=True):
    """A job as it is now; times are Unix ms, durations ms."""

    id: int
    address_id: str
    #: The queue that it waits in; most are named like their task.
    type: str
    #: The name of its task.
    name: str
    state: State
    priority: int
    data: Any
    attempts: int
    #: 0 for no limit.
    max_attempts: int
    #: How many runs may raise an error; 0 for no limit.
    max_exceptions: int
    #: No further attempt starts after this moment.
    retry_until: int | None
    #: Runs in the history that were released without spending an attempt.
    releases: int
    stalls: int
    progress: int
    progress_data: Any
    result: Any
    error: Error | None
    #: The fingerprint of a failed job's error.
    fingerprint: str | None
    worker: str | None
    #: Why a limit or a pause holds it back; empty if none does.
    held: str
    #: When time alone lets it start; null if a run must end first.
    held_until: int | None
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
    #: 0 for none.
    soft_timeout: int
    #: How many lost workers it survives; null for the default.
    max_stalls: int | None
    ttl: int
    expires: int
    unique: str | None
    unique_for: int
    unique_until: UniqueUntil
    #: 0 for no limit.
    unique_at_most: int
    group: str | None
    #: Names and keys of the limits that it counts against.
    limited_by: dict[str, str]
    tags: tuple[str, ...]
    parent: int | None
    after: tuple[int, ...]
    after_any: bool
    remove_on_complete: bool
    retention: int | None
    delivery: Delivery
    meta: dict[str, str]
    #: Whether its events are published.
    events: bool


class JobDetail(JobView, frozen=True, kw_only=True):
    """A job as it is now, with its history."""

    history: list[AttemptView]


def job_view(job: Job) -> JobView:
    """Return *job* as in lists."""
    return JobView.of(job, job.spec, **_converted(job))


def job_detail(job: Job) -> JobDetail:
    """
    Return everything there is to know about *job*.

    The token is left out: its holder may end the run.
    """
    history = [_attempt_view(attempt) for attempt in job.history]
    return JobDetail.of(job, job.spec, history=history, **_converted(job))


def _converted(job: Job) -> dict[str, Any]:
    return {"limited_by": dict(job.limited_by), "events": not job.spec.quiet}


def _attempt_view(attempt: Attempt) -> AttemptView:
    run = attempt.run
    if run is not None:
        return AttemptView.of(attempt, run)
    of_run = dict.fromkeys(("attempt", "worker", "started_at", "duration"))
    return AttemptView.of(attempt, **of_run)
