"""Notes on stuck jobs: which failed job others wait for, and how to go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.cli.output.console import print_message
from kue.client.stuck_jobs import failed_parents, failed_parents_of
from kue.worker.batches import BATCH

if TYPE_CHECKING:
    from kue.client.stuck_jobs import FailedParent
    from kue.model.job import Job
    from kue.store.contract import Store

#: Failed jobs that are listed individually.
MAX_NOTES = 5


async def print_failed_parents(store: Store) -> None:
    """Print which failed jobs others wait for: a decision, not damage."""
    found = await failed_parents(store)
    for one in found[:MAX_NOTES]:
        print_message(f"note: {one}: {_retry(one)}")
    if len(found) > MAX_NOTES:
        print_message(f"note: others wait for {len(found) - MAX_NOTES:,} more")


def _retry(job: Job | FailedParent) -> str:
    """Return the command that retries a failed job."""
    return f"kue {'batch' if job.type == BATCH else 'job'} retry {job.id}"


async def blocked_by(store: Store, job: Job) -> str:
    """Return which failed jobs *job* waits for, as a property of it."""
    failed = await failed_parents_of(store, job)
    shown = [f"{one.id}, which failed ({_retry(one)})" for one in failed]
    more = f"; and {len(shown) - MAX_NOTES:,} more" if len(shown) > MAX_NOTES else ""
    return "; ".join(f"job {one}" for one in shown[:MAX_NOTES]) + more
