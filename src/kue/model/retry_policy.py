"""
What becomes of a run that did not end well.  Pure decisions, one place for each.

Attempts and crashes are counted apart: a job that raises spends an attempt, a job
whose worker was lost does not, or a deploy by ``kill -9`` would fail every job that
has a single attempt.  Crashes have a limit of their own, so that a job which kills its
workers cannot take the fleet down with it.

A lost worker does not say which of its jobs was to blame.  So a job that lost two runs
alone in its process from then on (`runs_alone`): the losses that fail it are its own.
"""

from __future__ import annotations

import logging
import random

from kue.model import backoff
from kue.model.job import (
    Cancelled,
    Ending,
    Error,
    Failed,
    Job,
    Released,
    Retried,
    Stalled,
)

logger = logging.getLogger(__name__)

#: A job that lost this many workers is failed at the next loss.
MAX_STALLS = 3
#: A job that lost this many workers runs alone in its process.
ALONE_STALLS = 2
#: How long a worker keeps its other slots empty for such a job: first until what runs
#: beside it has ended, then while it runs.  A job that takes longer gets company again,
#: or one that runs for hours, or waits for another job, would stop the whole process.
ALONE_MS = 60_000
#: Lost in company, a job is failed only at this many losses and one more.
MAX_STALLS_IN_COMPANY = 9
#: The first loss is repeated at once: most are deploys.  Then after 1 s, 2 s …
FIRST_STALL_DELAY_MS = 1000
#: … doubled at most this often …
MAX_STALL_DOUBLINGS = 3
#: … and up to this many times as long on top.
STALL_SCATTER = 4
#: When the process that ends a run cannot make use of the job's named backoff.
UNKNOWN_BACKOFF_MS = 10_000

CANCELLED = "cancelled while it ran"
LOST_ENDING = "the store lost how this run ended"
TTL_EXCEEDED = Error("TTLExceeded", "TTL exceeded")
EXPIRED = Error("Expired", "the job was not started before it expired")


def after_error(job: Job, error: Error) -> Ending:
    """Return how a run that raised *error* ends: another attempt, or failed."""
    if job.attempts >= job.max_attempts:
        return Failed(error)
    return Retried(error, retry_delay_ms(job))


def after_cancel(reason: str = "") -> Cancelled:
    """Return how a run ends that was asked to, with the *reason* that was given."""
    return Cancelled(f"{CANCELLED}: {reason}" if reason else CANCELLED)


def runs_alone(job: Job) -> bool:
    """Return whether a worker must run *job* with nothing else beside it."""
    return job.stalls >= ALONE_STALLS


def after_ttl(job: Job, now: int) -> Ending:
    """Return how a run without a sign of life for its ttl ends."""
    if job.cancelling:
        return after_cancel()
    if _never_began(job):
        return Released(reason="its ttl passed before its worker could run it alone")
    return after_error(job, TTL_EXCEEDED)


def after_lost_worker(job: Job, now: int) -> Ending:
    """Return how a run whose worker's lease was over by *now* ends."""
    if job.cancelling:
        return Cancelled(f"{CANCELLED}; its worker was lost")
    worker = job.run.worker if job.run else "?"
    if _never_began(job):
        return Released(reason=f"worker {worker} was lost before it began this job")
    error = Error("WorkerLost", f"worker {worker} was lost while it ran this job")
    if job.once or job.stalls >= _most_stalls(job, now):
        return Failed(error)
    return Stalled(error, stall_delay_ms(job.id, job.stalls))


def after_lost_ending(job: Job) -> Ending:
    """Return the ending to record for a finished run whose own ending was lost."""
    if job.cancelling:
        return after_cancel()
    if job.once:
        return Failed(Error("EndingLost", LOST_ENDING))
    return Released(reason=LOST_ENDING)


def _never_began(job: Job) -> bool:
    """Return whether a job that is to run alone was claimed, and no more than that."""
    return runs_alone(job) and job.run is not None and job.run.began is None


def _most_stalls(job: Job, now: int) -> int:
    """Return how many losses the job survives, as the current run was made."""
    if not runs_alone(job) or job.run is None or job.run.began != "alone":
        return MAX_STALLS_IN_COMPANY
    was_alone_all_along = now - job.run.started_at < ALONE_MS
    return MAX_STALLS if was_alone_all_along else MAX_STALLS_IN_COMPANY


def retry_delay_ms(job: Job) -> int:
    try:
        return backoff.delay_ms(job.spec.backoff, job.attempts)
    except BaseException:
        # A strategy of the user's that is unknown here, raises or answers nonsense must
        # not keep the run from ending.
        logger.exception("no backoff for job %d", job.id, extra={"job_id": job.id})
        return UNKNOWN_BACKOFF_MS


def stall_delay_ms(job_id: int, stalls: int) -> int:
    """
    Return the pause before a job that lost *stalls* workers before runs again.

    Scattered, by id: jobs that went down together must not come back together, or one
    that kills its workers takes the same neighbours with it until all of them fail.
    """
    if stalls == 0:
        return 0
    pause: int = FIRST_STALL_DELAY_MS << min(stalls - 1, MAX_STALL_DOUBLINGS)
    # Drawn by the job, not by chance: whoever decides, decides the same.
    draw = random.Random(f"{job_id} lost {stalls}").random()
    return pause + int(STALL_SCATTER * pause * draw)
