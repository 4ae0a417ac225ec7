"""
Retry policy: what happens after a run that did not succeed.  Pure decisions.

Attempts and crashes are counted separately: a job that raises spends an attempt, a job
whose worker was lost does not, or a deploy by ``kill -9`` would fail every job that
has a single attempt.  Crashes have their own limit, so that a job which kills its
workers cannot take the fleet down with it.

A job may limit its retries in three ways, and the first limit it reaches fails it:
attempts, raised errors (`max_exceptions`) and time (`retry_until`).

When a worker is lost, it is not known which of its jobs was to blame.  So a job that
lost two workers runs alone in its process from then on (`runs_alone`): the losses that
fail it are its own.  A job that a program takes by hand is never held back, and each
loss is its own.
"""

from __future__ import annotations

import logging
import random
from itertools import takewhile
from typing import TYPE_CHECKING

from kue.model import backoff
from kue.model.duration import words
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

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kue.model.job import Attempt

logger = logging.getLogger(__name__)

#: A job that lost this many workers is failed at the next loss, unless it has its own
#: limit (`max_stalls`).
MAX_STALLS = 3
#: A job that lost this many workers runs alone in its process.
ALONE_STALLS = 2
#: How long a worker keeps its other slots empty for such a job: first until other runs
#: have ended, then while it runs.  After that the slots are filled again: a job that
#: runs for hours, or waits for another job, would otherwise stop the whole process.
ALONE_MS = 60_000
#: A job that did not run alone survives this many times as many losses.
COMPANY_FACTOR = 3
#: After the first loss a job runs at once: most are deploys.  Then after 1 s, 2 s …
FIRST_STALL_DELAY_MS = 1000
#: … doubled up to this many times …
MAX_STALL_DOUBLINGS = 3
#: … plus a random share of up to this many times as long.
STALL_SCATTER = 4
#: The delay when the process that ends a run cannot use the job's named backoff.
UNKNOWN_BACKOFF_MS = 10_000

CANCELLED = "cancelled while it ran"
LOST_ENDING = "the store lost how this run ended"
TTL_EXCEEDED = Error("TTLExceeded", "TTL exceeded")
EXPIRED = Error("Expired", "the job was not started before it expired")
#: The same for a job that has run before, with its last error.
EXPIRED_RETRY = "the job expired before its next attempt; the last error was %s"
#: The same for a job that runs.
EXPIRED_RUN = "the job expired while it ran, %s after it was added"


def before_run(job: Job, now: int) -> Failed | None:
    """
    Return how a run ends that must not begin, because it is too late for a retry.

    It ends with the error that made a retry necessary.  The first attempt begins
    whenever it is its turn; `expires` is for that.  Nor is it a retry when a job goes
    on that slept or waited for a signal.
    """
    if not _is_too_late(job, now) or (job.history and job.history[-1].suspended):
        return None
    error = _last_error(job.history)
    return None if error is None else Failed(error)


def after_error(job: Job, error: Error, now: int) -> Ending:
    """Return how a run that raised *error* ends: another attempt, or failed."""
    if 0 < job.spec.max_exceptions <= _exceptions(job) + 1:
        return Failed(error)
    return _retried(job, Retried(error, retry_delay_ms(job)), now)


def after_retry(job: Job, error: Error, delay: int | None, now: int) -> Ending:
    """
    Return how a run ends that asked for another attempt after *delay* ms.

    Without *delay* the backoff decides.  It spent an attempt, but raised no error.
    """
    wait = retry_delay_ms(job) if delay is None else delay
    return _retried(job, Retried(error, wait, asked=True), now)


def after_release(
    job: Job, released: Released, now: int, *, own: Error, cause: Error | None
) -> Ending:
    """
    Return how a released run ends: as *released*, unless that is not allowed.

    *cause* is the error that it was released for, *own* the release as an error.
    """
    # A release that counts is an attempt, and attempts are limited.
    if released.counts and not job.has_attempts_left:
        return Failed(cause or own)
    error = cause or _last_error(job.history)
    if error is not None and _is_too_late(job, now + released.delay):
        return Failed(error)
    return released


def after_cancel(reason: str = "") -> Cancelled:
    """Return how a cancelled run ends, with the *reason* if one was given."""
    return Cancelled(f"{CANCELLED}: {reason}" if reason else CANCELLED)


def runs_alone(job: Job) -> bool:
    """Return whether a worker must run *job* with nothing else at the same time."""
    return job.stalls >= ALONE_STALLS


def after_expiry(history: Sequence[Attempt]) -> Failed:
    """Return how a job ends that expired while no run of it went on."""
    error = _last_error(history)
    if error is None:
        return Failed(EXPIRED)
    return Failed(Error(EXPIRED.kind, EXPIRED_RETRY % error.summary))


def expired_run(life_ms: int) -> str:
    """Return the error message of a run that went on when its job's life was over."""
    return EXPIRED_RUN % words(life_ms)


def after_ttl(job: Job, now: int) -> Ending:
    """Return how a run ends that reported no progress for its ttl."""
    if job.cancelling:
        return after_cancel()
    if _never_began(job):
        return Released(reason="its ttl passed before its worker could run it alone")
    if _has_expired(job, now):
        return _expired(job, "its ttl had passed")
    return after_error(job, TTL_EXCEEDED, now)


def after_lost_worker(job: Job, now: int) -> Ending:
    """Return how a run ends whose worker's lease had run out by *now*."""
    if job.cancelling:
        return Cancelled(f"{CANCELLED}; its worker was lost")
    worker = job.run.worker if job.run else "?"
    if _never_began(job):
        return Released(reason=f"worker {worker} was lost before it began this job")
    error = Error("WorkerLost", f"worker {worker} was lost while it ran this job")
    if job.once or job.stalls >= _most_stalls(job, now):
        return Failed(error)
    if _has_expired(job, now):
        return _expired(job, error.message)
    delay = stall_delay_ms(job.id, job.stalls)
    too_late = _is_too_late(job, now + delay)
    return Failed(error) if too_late else Stalled(error, delay)


def after_lost_ending(job: Job) -> Ending:
    """Return the ending to record for a finished run whose ending was lost."""
    if job.cancelling:
        return after_cancel()
    if job.once:
        return Failed(Error("EndingLost", LOST_ENDING))
    return Released(reason=LOST_ENDING)


def _retried(job: Job, retried: Retried, now: int) -> Ending:
    """Return *retried*, or failed if no attempt is left or it would come too late."""
    if not job.has_attempts_left or _is_too_late(job, now + retried.delay):
        return Failed(retried.error)
    return retried


def _expired(job: Job, why: str) -> Failed:
    """Return how a run ends that was lost, after the life of its job was over."""
    return Failed(Error(EXPIRED.kind, f"{expired_run(job.expires)}; {why}"))


def _has_expired(job: Job, now: int) -> bool:
    return job.expires_at is not None and job.expires_at <= now


def _is_too_late(job: Job, at: int) -> bool:
    until = job.retry_until
    return until is not None and at > until


def _exceptions(job: Job) -> int:
    """Return how many runs raised an error, as far as the history goes back."""
    entries = _since_restart(job.history)
    return sum(one.outcome == "retry" and not one.asked for one in entries)


def _last_error(history: Sequence[Attempt]) -> Error | None:
    return next((one.error for one in _since_restart(history) if one.error), None)


def _since_restart(history: Sequence[Attempt]) -> Iterator[Attempt]:
    """Return the history since it was requeued by hand or replaced, newest first."""
    return takewhile(lambda one: not one.is_fresh_start, reversed(history))


def _never_began(job: Job) -> bool:
    """Return whether a job that is to run alone was claimed but not started."""
    run = job.run
    if run is None or run.is_by_hand:
        return False
    return runs_alone(job) and run.began is None


def _most_stalls(job: Job, now: int) -> int:
    """Return how many losses the job survives, given how its current run began."""
    most = MAX_STALLS if job.spec.max_stalls is None else job.spec.max_stalls
    if most < ALONE_STALLS or (job.run is not None and job.run.is_by_hand):
        # It fails before it would ever run alone, or nobody would run it alone.
        return most
    if not runs_alone(job) or job.run is None or job.run.began != "alone":
        return COMPANY_FACTOR * most
    was_alone_all_along = now - job.run.started_at < ALONE_MS
    return most if was_alone_all_along else COMPANY_FACTOR * most


def retry_delay_ms(job: Job) -> int:
    try:
        return backoff.delay_ms(job.spec.backoff, job.attempts)
    except BaseException:
        # A user's strategy that is unknown here, raises or returns nonsense must not
        # keep the run from ending.
        logger.exception(
            "cannot compute the backoff of job %d", job.id, extra={"job_id": job.id}
        )
        return UNKNOWN_BACKOFF_MS


def stall_delay_ms(job_id: int, stalls: int) -> int:
    """
    Return the delay before a job runs again that had lost *stalls* workers before.

    Scattered, by id: jobs that were lost together must not come back together, or one
    that kills its workers takes the same others with it until all of them fail.
    """
    if stalls == 0:
        return 0
    pause: int = FIRST_STALL_DELAY_MS << min(stalls - 1, MAX_STALL_DOUBLINGS)
    # Seeded by the job: every worker computes the same delay.
    draw = random.Random(f"{job_id} lost {stalls}").random()
    return pause + int(STALL_SCATTER * pause * draw)
