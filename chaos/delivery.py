"""
Delivery checks: every job that was added must end, as in Jepsen's total-queue.

Ids are unique, so comparing sets is enough.  An add that was not answered is
indeterminate: the job may exist or not, but not twice.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from chaos.breach import Breach

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.history import History
    from kue import Job

LOST, STUCK = "lost", "stuck"


def key_of(job: Job) -> str:
    """Return the key that its producer gave *job*."""
    return str(job.data["key"]) if isinstance(job.data, dict) else ""


def lost(history: History) -> Iterator[Breach]:
    """Jobs that were acknowledged and are gone without having been removed."""
    for attempt in history.acknowledged:
        job = history.job.get(attempt.id)
        # After a loss its id is assigned again.
        is_there = job is not None and key_of(job) == attempt.key
        is_lost = attempt.is_new and not is_there
        if is_lost and not history.may_be_removed(attempt.id):
            yield Breach(LOST, f"job {attempt.id} ({attempt.key}) was acknowledged")


def stuck(history: History) -> Iterator[Breach]:
    """Jobs that have not ended although everything had healed."""
    for job in history.jobs:
        if not job.state.is_final:
            yield Breach(STUCK, f"job {job.id} ({key_of(job)}) is still {job.state}")


def unexpected(history: History) -> Iterator[Breach]:
    """Jobs that no producer ever tried to add."""
    tried = {attempt.key for attempt in history.attempted}
    for job in history.jobs:
        if key_of(job) not in tried:
            yield Breach("unexpected", f"job {job.id} was added by no producer")


def duplicated(history: History) -> Iterator[Breach]:
    """Jobs that were added once and exist twice."""
    ids: dict[str, set[int]] = defaultdict(set)
    for job in history.jobs:
        ids[key_of(job)].add(job.id)
    for run in history.started:
        ids[run.key].add(run.id)
    for key, all_ids in ids.items():
        if len(all_ids) > 1:
            yield Breach("duplicated", f"{key} was added as jobs {sorted(all_ids)}")


CHECKS = (lost, stuck, unexpected, duplicated)
