"""A job as one JSON object, for readers outside the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from kue.model.job import Attempt, Job
    from kue.model.payload import JSON


def document(job: Job) -> dict[str, JSON]:
    """
    Return everything there is to know about *job*; times are Unix ms, durations ms.

    The token is left out: its holder may end the run.
    """
    return {
        "id": job.id,
        "address_id": job.address_id,
        "type": job.type,
        "state": job.state.value,
        "priority": job.priority,
        "data": job.data,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "stalls": job.stalls,
        "progress": job.progress,
        "progress_data": job.progress_data,
        "result": job.result,
        "error": _plain(job.error),
        "fingerprint": job.fingerprint,
        "worker": job.worker,
        "held": job.held,
        "cancelling": job.cancelling,
        **_times(job),
        **_options(job),
        "history": [_attempt(attempt) for attempt in job.history],
    }


def _times(job: Job) -> dict[str, JSON]:
    return {
        "created_at": job.created_at,
        "updated_at": job.updated_at,
        "started_at": job.started_at,
        "promote_at": job.promote_at,
        "ended_at": job.ended_at,
        "failed_at": job.failed_at,
        "expires_at": job.expires_at,
        "duration": job.duration,
    }


def _options(job: Job) -> dict[str, JSON]:
    spec = job.spec
    return {
        "delay": spec.delay,
        "backoff": _plain(spec.backoff),
        "timeout": spec.timeout,
        "ttl": job.ttl,
        "expires": job.expires,
        "unique": job.unique,
        "unique_for": job.unique_for,
        "group": job.group,
        "tags": list(spec.tags),
        "parent": spec.parent,
        "after": list(spec.after),
        "after_any": job.after_any,
        "remove_on_complete": spec.remove_on_complete,
        "retention": spec.retention,
        "delivery": "at-most-once" if job.once else "at-least-once",
        "meta": dict(spec.meta),
    }


def _attempt(attempt: Attempt) -> dict[str, JSON]:
    run = attempt.run
    return {
        "attempt": run.attempt if run else None,
        "worker": run.worker if run else None,
        "started_at": run.started_at if run else None,
        "at": attempt.at,
        "duration": attempt.duration if run else None,
        "outcome": attempt.outcome,
        "result": attempt.result,
        "error": _plain(attempt.error),
        "delay": attempt.delay,
        "reason": attempt.reason,
        "taken": attempt.taken,
    }


def _plain(value: object) -> JSON:
    return msgspec.to_builtins(value)
