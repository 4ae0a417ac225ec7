"""
Job history checks: the history of each job must be consistent with its runs.

A job's history has one entry for each run that ended and one for each time that an
operator requeued the finished job.  The entries between two of the latter are a life.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from chaos.breach import Breach
from chaos.facts import FOREVER
from chaos.plan import APART
from kue import State
from kue.model.retry_policy import MAX_STALLS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.history import History
    from kue import Job
    from kue.model.job import Attempt

COMPLETED_TWICE = "completed-twice"
#: Entries that a history keeps; one with as many may have lost its beginning.
MAX_ENTRIES = 20
FINAL = frozenset({"complete", "failed", "cancelled"})
#: Errors with which a job may fail: planned ones, or those that faults cause.
EXPECTED_ERRORS = frozenset(
    {
        "Planned",
        "SystemExit",
        "RunTimeout",
        "WorkerLost",
        "WorkerStopped",
        "ProcessLost",
    }
)


def lives(job: Job) -> list[list[Attempt]]:
    """Return the entries of *job*'s history, divided where it was requeued."""
    parts: list[list[Attempt]] = [[]]
    for entry in job.history:
        if entry.outcome == "restarted":
            parts.append([])
        else:
            parts[-1].append(entry)
    return parts


def completed_twice(history: History) -> Iterator[Breach]:
    """Completions that were accepted although the job was complete."""
    for job in history.jobs:
        for life in lives(job):
            done = [entry for entry in life if entry.outcome == "complete"]
            for entry in done[1:]:
                yield Breach(COMPLETED_TWICE, f"job {job.id} by run {entry.token}")


def ended_and_went_on(history: History) -> Iterator[Breach]:
    """Jobs that ended and had another ending, without having been requeued."""
    for job in history.jobs:
        for life in lives(job):
            for entry, following in pairwise(life):
                # Reported by `completed_twice`.
                is_reported = entry.outcome == following.outcome == "complete"
                if entry.outcome in FINAL and not is_reported:
                    yield Breach(
                        "went-on",
                        f"job {job.id} was {entry.outcome}, then {following.outcome}",
                    )


def restarted_unasked(history: History) -> Iterator[Breach]:
    """Jobs that ended and ran again though no operator retried that ending."""
    for job in history.jobs:
        asked = history.retried(job.id)
        for ending in restarted(job):
            if ending not in asked:
                yield Breach("restarted", f"job {job.id} after {ending}")


def retried_twice(history: History) -> Iterator[Breach]:
    """Endings for which two retries were acknowledged: the second must do nothing."""
    done = Counter(
        (order.id, order.ending)
        for order in history.given
        if order.verb == "retry" and order.word == "done"
    )
    for (job_id, ending), count in done.items():
        if count > 1:
            yield Breach("retried-twice", f"job {job_id} after {ending}")


def retry_lost(history: History) -> Iterator[Breach]:
    """Retries that were acknowledged and are missing in the history."""
    for job in history.jobs:
        recorded = set(restarted(job))
        for order in history.ordered(job.id, "retry"):
            is_recorded = order.ending in recorded or len(job.history) >= MAX_ENTRIES
            if order.word == "done" and not is_recorded:
                yield Breach("retry-lost", f"job {job.id} after {order.ending}")


def restarted(job: Job) -> list[str]:
    """Return the endings after which *job* was requeued."""
    return [
        f'{{"run":"{entry.token}","at":{entry.at},'
        for entry, following in pairwise(job.history)
        if following.outcome == "restarted"
    ]


def state_differs(history: History) -> Iterator[Breach]:
    """Jobs whose state differs from the last entry of their history."""
    for job in history.jobs:
        last = job.history[-1].outcome if job.history else ""
        if job.state.is_final and last != job.state:
            yield Breach(
                "state-differs",
                f"job {job.id} is {job.state}, its history ends {last!r}",
            )


def fences_repeat(history: History) -> Iterator[Breach]:
    """Runs of a job whose fencing tokens do not increase."""
    for job in history.jobs:
        fences = [entry.run.fence for entry in job.history if entry.run]
        for fence, following in pairwise(fences):
            if following <= fence:
                yield Breach("fence", f"job {job.id}: {following} came after {fence}")


def too_many_attempts(history: History) -> Iterator[Breach]:
    """Jobs that ran more often than they may, by failing or by losing workers."""
    for job in history.jobs:
        for entry in job.history:
            if entry.run and entry.run.attempt > job.max_attempts:
                yield Breach(
                    "attempts",
                    f"job {job.id}: attempt {entry.run.attempt} of {job.max_attempts}",
                )
        for life in lives(job):
            stalls = sum(entry.outcome == "stalled" for entry in life)
            if stalls > MAX_STALLS:
                yield Breach("attempts", f"job {job.id} lost {stalls} workers")


def started_early(history: History) -> Iterator[Breach]:
    """Runs that began before their job was due, both by the store's clock."""
    for job in history.jobs:
        since = job.created_at
        due = since + job.spec.delay if len(job.history) < MAX_ENTRIES else 0
        for entry in job.history:
            began = entry.run.started_at if entry.run else FOREVER
            # Requeued by an operator, it is due at once.
            if began < due and not history.may_be_retried(job.id, since, began):
                yield Breach("early", f"job {job.id} began {due - began} ms too soon")
            since, due = entry.at, entry.at + entry.delay


def run_twice(history: History) -> Iterator[Breach]:
    """Runs whose handler was called more than once: one token is one call."""
    calls = Counter((run.id, run.fence) for run in history.started)
    for (job_id, fence), count in calls.items():
        if count > 1:
            yield Breach("run-twice", f"job {job_id} with fence {fence}, {count} times")


def run_by_orphan(history: History) -> Iterator[Breach]:
    """Runs that began in a child process whose worker was dead."""
    workers = {one.pid for one in history.came}
    for run in history.started:
        if run.type == APART and run.parent not in workers:
            yield Breach("orphan", f"job {run.id} with fence {run.fence}")


def run_unrecorded(history: History) -> Iterator[Breach]:
    """Runs that began and are missing in the history of their ended job."""
    for job in history.jobs:
        if not job.state.is_final or len(job.history) >= MAX_ENTRIES:
            continue
        recorded = {entry.run.fence for entry in job.history if entry.run}
        for run in history.runs.get(job.id, ()):
            if run.fence not in recorded:
                yield Breach("untold", f"job {job.id}: the run with fence {run.fence}")


def without_effect(history: History) -> Iterator[Breach]:
    """Completions of runs that had no effect, or with the result of another run."""
    had = {(effect.job, effect.fence) for effect in history.effects}
    for job in history.jobs:
        for entry in job.history:
            if entry.outcome != "complete" or entry.run is None:
                continue
            fence = entry.run.fence
            if (job.id, fence) not in had:
                yield Breach("without-effect", f"job {job.id} with fence {fence}")
            if entry.result != fence:
                yield Breach("other-result", f"job {job.id}: {entry.result} by {fence}")


def once_repeated(history: History) -> Iterator[Breach]:
    """At-most-once jobs that were delivered again."""
    for job_id, runs in history.runs.items():
        job = history.job.get(job_id)
        entries = job.history if job else ()
        # An ending is retried once; a job that was removed has no history.
        again = sum(entry.outcome == "restarted" for entry in entries)
        again = max(again, len(history.retried(job_id)))
        if runs[0].once and len(runs) > 1 + again:
            yield Breach("once", f"job {job_id} was begun {len(runs)} times")


def failed_for_no_reason(history: History) -> Iterator[Breach]:
    """Jobs that failed with an unexpected error."""
    for job in history.jobs:
        error = job.error if job.state is State.FAILED else None
        if error is not None and error.kind not in EXPECTED_ERRORS:
            yield Breach("failed", f"job {job.id}: {error.kind}: {error.message}")


CHECKS = (
    completed_twice,
    ended_and_went_on,
    restarted_unasked,
    retried_twice,
    retry_lost,
    state_differs,
    fences_repeat,
    too_many_attempts,
    started_early,
    run_twice,
    run_by_orphan,
    run_unrecorded,
    without_effect,
    once_repeated,
    failed_for_no_reason,
)
