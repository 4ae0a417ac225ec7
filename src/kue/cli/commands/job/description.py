"""The description of a job, for ``kue job show``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.cli.output.text import both, json_text, words
from kue.model.job import Priority, State

if TYPE_CHECKING:
    from kue.model.job import Job

_NAMES = {priority.value: priority.name.lower() for priority in Priority}


def facts(job: Job, *, now: int, log_lines: int) -> dict[str, str]:
    """Return the properties of *job* by name, without those that are not set."""
    every = {
        "id": str(job.id),
        "type": job.type,
        "state": _state(job),
        "priority": _priority(job.priority),
        "data": json_text(job.data),
        **_outcome(job),
        **_times(job, now),
        **_options(job),
        "log": f"{log_lines:,} lines (kue job log {job.id})" if log_lines else "",
        "address": job.address_id,
    }
    return {name: value for name, value in every.items() if value}


def _state(job: Job) -> str:
    if job.cancelling:
        return f"{job.state} (asked to end)"
    return f"{job.state} ({job.held})" if job.held else job.state.value


def _priority(number: int) -> str:
    return f"{_NAMES[number]} ({number})" if number in _NAMES else str(number)


def _outcome(job: Job) -> dict[str, str]:
    progress = f"{job.progress} %" if job.progress else ""
    if job.progress_data is not None:
        progress += f" {json_text(job.progress_data)}"
    return {
        "attempts": f"{job.attempts} of {job.max_attempts}",
        "lost workers": str(job.stalls or ""),
        "progress": progress,
        "result": json_text(job.result) if job.state is State.COMPLETE else "",
        "error": job.error.summary if job.error else "",
        "worker": job.worker or "",
    }


def _times(job: Job, now: int) -> dict[str, str]:
    moments = {
        "added": job.created_at,
        "due": job.promote_at,
        "started": job.started_at,
        "ended": job.ended_at,
        "failed": job.failed_at if job.state is not State.FAILED else None,
        "expires": job.expires_at if not job.state.is_final else None,
    }
    shown = {name: both(at, now) for name, at in moments.items() if at is not None}
    return shown | {"took": _took(job, now)}


def _took(job: Job, now: int) -> str:
    run = job.run
    if run is not None:
        return f"{words(max(0, now - run.started_at))} so far"
    return "" if job.duration is None else words(job.duration)


def _options(job: Job) -> dict[str, str]:
    spec = job.spec
    lengths = {
        "delay": spec.delay,
        "timeout": spec.timeout,
        "ttl": job.ttl,
        "unique for": job.unique_for,
        "kept for": spec.retention,
    }
    return {
        "tags": ", ".join(spec.tags),
        "unique": job.unique or "",
        "group": job.group or "",
        "parent": str(spec.parent or ""),
        "after": ", ".join(map(str, spec.after)),
        "backoff": json_text(msgspec.to_builtins(spec.backoff)) if spec.backoff else "",
        **{name: words(ms) for name, ms in lengths.items() if ms},
        "delivery": "at most once" if job.once else "",
        "when complete": "removed" if spec.remove_on_complete else "",
        "meta": json_text(spec.meta) if spec.meta else "",
    }
