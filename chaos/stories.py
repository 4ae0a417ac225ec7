"""
What the store says of each job: its story, line by line, against what handlers did.

A story has one line for each run that ended and one for each time that someone put the
finished job back in line.  What lies between two of the latter is a life.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from chaos.breach import Breach
from chaos.facts import FOR_EVER
from chaos.plan import APART
from kue import State
from kue.model.retry_policy import MAX_STALLS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.history import History
    from kue import Job
    from kue.model.job import Attempt

COMPLETED_TWICE = "completed-twice"
#: Lines that a story keeps; one that has so many may have lost its beginning.
FULL_STORY = 20
FINAL = frozenset({"complete", "failed", "cancelled"})
#: What a job may fail of in a run: what it was told to do, or what was done to it.
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
    """Return the lines of *job*'s story, divided where it was put back in line."""
    parts: list[list[Attempt]] = [[]]
    for line in job.history:
        if line.outcome == "restarted":
            parts.append([])
        else:
            parts[-1].append(line)
    return parts


def completed_twice(history: History) -> Iterator[Breach]:
    """Completions that were accepted although the job was complete."""
    for job in history.jobs:
        for life in lives(job):
            done = [line for line in life if line.outcome == "complete"]
            for line in done[1:]:
                yield Breach(COMPLETED_TWICE, f"job {job.id} by run {line.token}")


def ended_and_went_on(history: History) -> Iterator[Breach]:
    """Jobs that ended and had another ending, though nobody put them back."""
    for job in history.jobs:
        for life in lives(job):
            for line, following in pairwise(life):
                is_told = line.outcome == following.outcome == "complete"
                if line.outcome in FINAL and not is_told:
                    yield Breach(
                        "went-on",
                        f"job {job.id} was {line.outcome} and then {following.outcome}",
                    )


def restarted_unasked(history: History) -> Iterator[Breach]:
    """Jobs that ended and run again though nobody retried that very ending."""
    for job in history.jobs:
        asked = history.retried(job.id)
        for ending in restarted(job):
            if ending not in asked:
                yield Breach("restarted", f"job {job.id} after {ending}")


def retried_twice(history: History) -> Iterator[Breach]:
    """Endings that two were told to have retried: the second is to do nothing."""
    done = Counter(
        (order.id, order.ending)
        for order in history.given
        if order.verb == "retry" and order.word == "done"
    )
    for (job_id, ending), count in done.items():
        if count > 1:
            yield Breach("retried-twice", f"job {job_id} after {ending}")


def retry_lost(history: History) -> Iterator[Breach]:
    """Retries that were acknowledged and of which the story says nothing."""
    for job in history.jobs:
        told = set(restarted(job))
        for order in history.ordered(job.id, "retry"):
            is_told = order.ending in told or len(job.history) >= FULL_STORY
            if order.word == "done" and not is_told:
                yield Breach("retry-lost", f"job {job.id} after {order.ending}")


def restarted(job: Job) -> list[str]:
    """Return the endings after which *job* was put back in line."""
    return [
        f'{{"run":"{line.token}","at":{line.at},'
        for line, following in pairwise(job.history)
        if following.outcome == "restarted"
    ]


def state_differs(history: History) -> Iterator[Breach]:
    """Jobs whose state is not how their story ends."""
    for job in history.jobs:
        last = job.history[-1].outcome if job.history else ""
        if job.state.is_final and last != job.state:
            yield Breach(
                "state-differs", f"job {job.id} is {job.state}, its story ends {last!r}"
            )


def fences_repeat(history: History) -> Iterator[Breach]:
    """Runs of a job whose fences do not grow."""
    for job in history.jobs:
        fences = [line.run.fence for line in job.history if line.run]
        for fence, following in pairwise(fences):
            if following <= fence:
                yield Breach("fence", f"job {job.id}: {following} came after {fence}")


def too_many_attempts(history: History) -> Iterator[Breach]:
    """Jobs that ran more often than they may, by failing or by losing workers."""
    for job in history.jobs:
        for line in job.history:
            if line.run and line.run.attempt > job.max_attempts:
                yield Breach(
                    "attempts",
                    f"job {job.id}: attempt {line.run.attempt} of {job.max_attempts}",
                )
        for life in lives(job):
            stalls = sum(line.outcome == "stalled" for line in life)
            if stalls > MAX_STALLS:
                yield Breach("attempts", f"job {job.id} lost {stalls} workers")


def started_early(history: History) -> Iterator[Breach]:
    """Runs that began before their job was due, both by the store's clock."""
    for job in history.jobs:
        since = job.created_at
        due = since + job.spec.delay if len(job.history) < FULL_STORY else 0
        for line in job.history:
            began = line.run.started_at if line.run else FOR_EVER
            # Put in line by hand, it is due at once.
            if began < due and not history.may_be_retried(job.id, since, began):
                yield Breach("early", f"job {job.id} began {due - began} ms too soon")
            since, due = line.at, line.at + line.delay


def run_twice(history: History) -> Iterator[Breach]:
    """Runs whose handler was called more than once: one token is one call."""
    calls = Counter((run.id, run.fence) for run in history.started)
    for (job_id, fence), count in calls.items():
        if count > 1:
            yield Breach("run-twice", f"job {job_id} with fence {fence}, {count} times")


def run_by_orphan(history: History) -> Iterator[Breach]:
    """Runs that began in a process of their own whose worker was dead."""
    workers = {one.pid for one in history.came}
    for run in history.started:
        if run.type == APART and run.parent not in workers:
            yield Breach("orphan", f"job {run.id} with fence {run.fence}")


def run_untold(history: History) -> Iterator[Breach]:
    """Runs that began and of which the story of their ended job says nothing."""
    for job in history.jobs:
        if not job.state.is_final or len(job.history) >= FULL_STORY:
            continue
        told = {line.run.fence for line in job.history if line.run}
        for run in history.runs.get(job.id, ()):
            if run.fence not in told:
                yield Breach("untold", f"job {job.id}: the run with fence {run.fence}")


def without_effect(history: History) -> Iterator[Breach]:
    """Completions of runs that never had their effect, or that others spoke for."""
    had = {(effect.job, effect.fence) for effect in history.effects}
    for job in history.jobs:
        for line in job.history:
            if line.outcome != "complete" or line.run is None:
                continue
            fence = line.run.fence
            if (job.id, fence) not in had:
                yield Breach("without-effect", f"job {job.id} with fence {fence}")
            if line.result != fence:
                yield Breach("other-result", f"job {job.id}: {line.result} by {fence}")


def once_repeated(history: History) -> Iterator[Breach]:
    """Jobs that are delivered at most once and were delivered again."""
    for job_id, runs in history.runs.items():
        job = history.job.get(job_id)
        lines = job.history if job else ()
        # An ending is retried once; of a job that was removed there is no story.
        again = sum(line.outcome == "restarted" for line in lines)
        again = max(again, len(history.retried(job_id)))
        if runs[0].once and len(runs) > 1 + again:
            yield Breach("once", f"job {job_id} was begun {len(runs)} times")


def failed_for_no_reason(history: History) -> Iterator[Breach]:
    """Jobs that failed of something that nobody planned."""
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
    run_untold,
    without_effect,
    once_repeated,
    failed_for_no_reason,
)
