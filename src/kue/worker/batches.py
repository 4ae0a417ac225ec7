"""
Batches in the store: how one ends, and what is done to all of its members.

A batch is a job of the type ``kue.batch`` that waits for its members, which are its
flow.  It ends as they did.  A second job, ``kue.first-failure``, waits for the same
members and runs only when one of them fails; the batch waits for that one, too.
Callbacks before the batch are jobs that all members wait for.
"""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

import msgspec

from kue.model.errors import Cancel, Fail, Release
from kue.model.job import UNFINISHED, State
from kue.model.parent_failure import NONE_FAILED, reason_of
from kue.store.values import MAX_BATCH, MoveRequest, PageRequest, Result
from kue.worker import batch_progress

if TYPE_CHECKING:
    from collections.abc import (
        AsyncIterator,
        Collection,
        Iterable,
        Mapping,
        Sequence,
    )

    from kue.model.job import Job
    from kue.model.payload import JSON
    from kue.store.contract import Store
    from kue.store.values import FlowCounts
    from kue.worker.active_run import ActiveRun

BATCH = "kue.batch"
FIRST_FAILURE = "kue.first-failure"
#: A tag of batches whose members are not to run any more.
CANCELLED = "cancelled"
#: Why members are cancelled that have not started.
FAILED = "another job of its batch failed"
#: How long a batch waits for members that were retried: first, and at most.
FIRST_LOOK_SECONDS, MAX_LOOK_SECONDS = 0.5, 30.0
#: Ids after its own where a first failure looks for its batch, before it searches, and
#: where the callbacks are that were added in one call with a batch.
NEAR_IDS = 50
#: Members that can be cancelled: those that run may finish.
NOT_STARTED = UNFINISHED - {State.ACTIVE}


class BatchOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data of a batch."""

    name: str = ""
    allow_failures: bool = False
    #: Whether the first job that it waits for is a gate, and the next a first failure.
    has_gate: bool = False
    has_watch: bool = False
    #: The callbacks that its members wait for.
    before: tuple[int, ...] = ()
    #: The job that reports its progress; 0 if none does.
    progress: int = 0
    #: The callbacks after it, and that job, of a batch that was added in several calls.
    callbacks: tuple[int, ...] = ()

    @classmethod
    def of(cls, batch: Job) -> BatchOptions:
        """
        Read them.

        Raises:
            ValueError: The job is not a batch.
        """
        try:
            return msgspec.convert(batch.data, cls)
        except msgspec.ValidationError as exc:
            raise ValueError(
                f"job {batch.id} of type {batch.type!r} is not a batch: {exc}"
            ) from exc

    def watch_of(self, batch: Job) -> int | None:
        """Return the job that runs at the first failure, if there is one."""
        after = batch.spec.after
        return after[self.has_gate] if self.has_watch else None


def is_batch(job: Job) -> bool:
    """Return whether *job* is a batch, rather than another one of that type."""
    try:
        BatchOptions.of(job)
    except ValueError:
        return False
    return job.type == BATCH


async def end_batch(store: Store, run: ActiveRun) -> JSON:
    """Handle a batch whose members have ended: it ends as they did."""
    options = BatchOptions.of(run.job)
    [counts] = await store.flow_counts([run.id])
    await batch_progress.report_end(store, options.progress, counts)
    before = await _unsuccessful(store, options.before)
    if counts.failed or any(job.state is State.FAILED for job in before):
        await _catch_after_retry(store, run.job, options)
    if counts.unfinished:
        # Some were retried by hand.
        if counts.failed and _was_retried(run.job) and not options.allow_failures:
            # The job for the first failure has run before.
            await cancel_members(store, run.id, FAILED)
        delay = FIRST_LOOK_SECONDS * 2 ** min(run.job.releases, 10)
        reason = f"{counts.unfinished:,} of its jobs have not ended"
        raise Release(min(delay, MAX_LOOK_SECONDS), reason=reason)
    if CANCELLED in run.tags:
        raise Cancel(f"the batch was cancelled: {summary(counts)}")
    if options.has_gate and await _is_cancelled(store, run.job.spec.after[0]):
        raise Fail("the program that added the batch stopped before it was complete")
    for job in before:
        raise Fail(f"job {job.id}, which was to run before it, {_ended(job)}")
    if not options.allow_failures and await _lacks_success(store, run.id, counts):
        raise Fail(summary(counts))
    return {
        "total": counts.total,
        "complete": counts.complete,
        "failed": counts.failed,
        "cancelled": counts.cancelled,
    }


async def first_failure(store: Store, run: ActiveRun) -> JSON:
    """Handle the first failure in a batch; return the id of the failed member."""
    batch = await _batch_of(store, run.id)
    if batch is None:
        raise Cancel("its batch is gone")
    options = BatchOptions.of(batch)
    for job in await _unsuccessful(store, options.before):
        # No member runs.
        return job.id
    if not options.allow_failures:
        await cancel_members(store, batch.id, FAILED)
    async for members in member_pages(store, batch.id):
        for job in members:
            if job.state is State.FAILED:
                return job.id
    return None


async def cancel_members(store: Store, batch_id: int, reason: str) -> None:
    """Cancel the members of a batch that have not started."""
    async for members in member_pages(store, batch_id):
        await cancel_not_started(store, members, reason)


async def cancel_not_started(
    store: Store, jobs: Iterable[Job | None], reason: str
) -> None:
    """Cancel those of *jobs* that have not started."""
    ids = [job.id for job in jobs if job is not None and job.state in NOT_STARTED]
    if ids:
        await store.cancel(ids, reason=reason)


async def retry_members(store: Store, batch_id: int, before: Sequence[int]) -> int:
    """
    Requeue the members of a batch that did not succeed; return how many.

    They wait for the jobs *before* the batch, which are tried again first.
    """
    states = (State.FAILED, State.CANCELLED)
    if before:
        await store.move(MoveRequest(before, State.WAITING, states=states))
    number = 0
    linked: dict[int, tuple[int, ...]] = {}
    async for members in member_pages(store, batch_id):
        ended = [job for job in members if job.state in states]
        ids = [job.id for job in ended if not job.spec.after]
        linked |= {job.id: job.spec.after for job in ended if job.spec.after}
        if ids:
            await store.move(MoveRequest(ids, State.WAITING, states=states))
        number += len(ids)
    return number + len(await block_again(store, linked))


async def restore_callbacks(store: Store, batch: Job, parent: int) -> None:
    """
    Have callbacks wait again for *parent*, whose cancellation cancelled them.

    That is the *batch*, or its job for the first failure, and it was requeued.
    """
    reason = reason_of(parent, State.CANCELLED)
    callbacks = await callbacks_of(store, batch)
    lost = [job for job in callbacks if _was_cancelled(job, reason)]
    await block_again(store, {job.id: job.spec.after for job in lost})


async def callbacks_of(store: Store, batch: Job) -> list[Job]:
    """Return the jobs that were added with a batch, and run after it or a failure."""
    ids = BatchOptions.of(batch).callbacks if is_batch(batch) else ()
    jobs = await store.get(ids or range(batch.id + 1, batch.id + NEAR_IDS))
    known = {batch.id, *batch.spec.after}
    return [job for job in jobs if job is not None and known & set(job.spec.after)]


async def block_again(store: Store, jobs: Mapping[int, Collection[int]]) -> list[int]:
    """Have ended *jobs* wait again for others, each after those that it waits for."""
    known = jobs.keys()
    order = TopologicalSorter({at: known & set(jobs[at]) for at in jobs})
    order.prepare()
    moved: list[int] = []
    while order.is_active():
        level = sorted(order.get_ready())
        for start in range(0, len(level), MAX_BATCH):
            ids = level[start : start + MAX_BATCH]
            replies = await store.move(MoveRequest(ids, State.BLOCKED))
            answered = zip(ids, replies, strict=True)
            moved += [at for at, reply in answered if reply.word is Result.DONE]
        order.done(*level)
    return moved


async def member_pages(store: Store, batch_id: int) -> AsyncIterator[list[Job]]:
    """Yield the members of a batch, some at a time."""
    cursor = None
    while True:
        page = await store.members(batch_id, limit=MAX_BATCH, cursor=cursor)
        yield page.jobs
        cursor = page.cursor
        if cursor is None:
            return


def summary(counts: FlowCounts) -> str:
    """Return how the members of a batch ended, as a sentence."""
    cancelled = f", {counts.cancelled:,} were cancelled" if counts.cancelled else ""
    return f"{counts.failed:,} of {counts.total:,} jobs failed{cancelled}"


async def _catch_after_retry(store: Store, batch: Job, options: BatchOptions) -> None:
    """
    Run the job for the first failure if it was cancelled before there was one.

    It is when all members were cancelled, or succeeded; a retry of them may fail.
    """
    watch_id = options.watch_of(batch)
    [watch] = await store.get([watch_id]) if watch_id else [None]
    if watch is None:
        return
    if _was_cancelled(watch, NONE_FAILED):
        states = (State.CANCELLED,)
        await store.move(MoveRequest([watch.id], State.WAITING, states=states))
    elif not _was_retried(watch):
        return
    await restore_callbacks(store, batch, watch.id)


async def _lacks_success(store: Store, batch_id: int, counts: FlowCounts) -> bool:
    """Return whether a member did not succeed, other than a catch without a failure."""
    missing = counts.total - counts.complete
    if not counts.failed and missing:
        async for members in member_pages(store, batch_id):
            missing -= sum(_was_cancelled(job, NONE_FAILED) for job in members)
    return missing > 0


def _was_retried(job: Job) -> bool:
    return any(one.outcome == "restarted" for one in job.history)


def _was_cancelled(job: Job, reason: str) -> bool:
    is_cancelled = job.state is State.CANCELLED and bool(job.history)
    return is_cancelled and job.history[-1].reason == reason


async def _unsuccessful(store: Store, ids: Sequence[int]) -> list[Job]:
    """Return the jobs that failed or were cancelled; of those that are removed none."""
    jobs = await store.get(ids) if ids else []
    bad = (State.FAILED, State.CANCELLED)
    return [job for job in jobs if job is not None and job.state in bad]


def _ended(job: Job) -> str:
    return "failed" if job.state is State.FAILED else "was cancelled"


async def _is_cancelled(store: Store, job_id: int) -> bool:
    [job] = await store.get([job_id])
    return job is not None and job.state is State.CANCELLED


async def _batch_of(store: Store, watch_id: int) -> Job | None:
    """Return the batch that waits for a first failure: it was added right after it."""
    near = await store.get(range(watch_id + 1, watch_id + NEAR_IDS))
    for job in near:
        if job is not None and _waits_for(job, watch_id):
            return job
    # After a retry it is not blocked.
    for state in (State.BLOCKED, None):
        cursor = None
        while True:
            page = await store.page(
                PageRequest(state, BATCH, limit=MAX_BATCH, cursor=cursor)
            )
            for job in page.jobs:
                if _waits_for(job, watch_id):
                    return job
            cursor = page.cursor
            if cursor is None:
                break
    return None


def _waits_for(job: Job, watch_id: int) -> bool:
    return job.type == BATCH and watch_id in job.spec.after
