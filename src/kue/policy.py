"""
What becomes of a run that did not end well.  Pure decisions, one place for each.

Attempts and crashes are counted apart: a job that raises spends an attempt, a job
whose worker was lost does not, or a deploy by ``kill -9`` would fail every job that
has a single attempt.  Crashes have a limit of their own, so that a job which kills its
workers cannot take the fleet down with it.
"""

from __future__ import annotations

import logging
import random

from kue import backoff
from kue.job import Cancelled, Ending, Error, Failed, Job, Retried, Stalled

logger = logging.getLogger(__name__)

#: A job that lost this many workers is failed at the next loss.
MAX_STALLS = 3
#: The first loss is repeated at once: most are deploys.  Then after 1 s, 2 s …
FIRST_STALL_DELAY_MS = 1000
#: … and up to this many times as long on top.
STALL_SCATTER = 4
#: When the process that ends a run cannot make use of the job's named backoff.
UNKNOWN_BACKOFF_MS = 10_000

CANCELLED = "cancelled while it ran"
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


def after_ttl(job: Job) -> Ending:
    """Return how a run without a sign of life for its ttl ends."""
    if job.cancelling:
        return after_cancel()
    return after_error(job, TTL_EXCEEDED)


def after_lost_worker(job: Job) -> Ending:
    """Return how a run whose worker's lease ran out ends."""
    if job.cancelling:
        return Cancelled(f"{CANCELLED}; its worker was lost")
    worker = job.run.worker if job.run else "?"
    error = Error("WorkerLost", f"worker {worker} was lost while it ran this job")
    if job.once or job.stalls >= MAX_STALLS:
        return Failed(error)
    return Stalled(error, stall_delay_ms(job.id, job.stalls))


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
    pause: int = FIRST_STALL_DELAY_MS << (stalls - 1)
    # Drawn by the job, not by chance: whoever decides, decides the same.
    draw = random.Random(f"{job_id} lost {stalls}").random()
    return pause + int(STALL_SCATTER * pause * draw)
