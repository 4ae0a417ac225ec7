"""Batch handles: the progress of a batch in the store, and what can be done with it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import msgspec
from msgspec.structs import replace

from kue.client.flow_cycles import refuse_cycles
from kue.client.flow_enqueue import LinkedAdd, calls_of, linked
from kue.client.handle import JobHandle
from kue.model.errors import InvalidTransition, JobNotFound
from kue.model.job import Draft, State
from kue.store.values import MAX_BATCH, Change, MoveRequest
from kue.worker.batches import (
    BATCH,
    CANCELLED,
    BatchOptions,
    cancel_members,
    cancel_not_started,
    member_pages,
    restore_callbacks,
    retry_members,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kue.client.connection import Connection
    from kue.client.flow import Flow
    from kue.model.duration import Duration
    from kue.model.job import Job
    from kue.store.contract import Store
    from kue.store.values import FlowCounts

#: Why members are cancelled that have not started, unless a reason is given.
BATCH_CANCELLED = "its batch was cancelled"

#: When a batch that is retried looks at its jobs, if its retry is cut short.
LATER_MS = 30_000

#: A member of a batch, or several that wait for each other.
Call: TypeAlias = Union["Flow[Any]", Draft]


class BatchProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a batch is."""

    id: int
    name: str
    #: Of the batch itself: blocked while members have not ended.
    state: State
    allow_failures: bool
    is_cancelled: bool
    total: int
    complete: int
    failed: int
    cancelled: int
    #: Members that have ended in any way.
    done: int
    percent: int
    created_at: int
    ended_at: int | None

    @classmethod
    def of(cls, batch: Job, counts: FlowCounts) -> BatchProgress:
        """Return the progress of a batch with these *counts*."""
        options = BatchOptions.of(batch)
        done = counts.total - counts.unfinished
        return cls(
            **counts._asdict(),
            id=batch.id,
            name=options.name,
            state=batch.state,
            allow_failures=options.allow_failures,
            is_cancelled=CANCELLED in batch.tags,
            done=done,
            percent=done * 100 // counts.total if counts.total else 100,
            created_at=batch.created_at,
            ended_at=batch.ended_at,
        )


class BatchHandle:
    """A batch in the store."""

    def __init__(self, connection: Connection, batch_id: int) -> None:
        self._connection = connection
        self.id = batch_id

    def __repr__(self) -> str:
        return f"<BatchHandle {self.id}>"

    async def progress(self) -> BatchProgress:
        """
        Return how many jobs it has, and how they ended so far.

        Raises:
            JobNotFound: It was removed.
            ValueError: The id is that of another job.
        """
        batch = await self._read()
        [counts] = await self._connection.store.flow_counts([self.id])
        return BatchProgress.of(batch, counts)

    async def result(self, timeout: Duration | None = None) -> dict[str, int]:
        """
        Wait until all jobs have ended; return how many did so in which way.

        Raises:
            JobFailed, JobCancelled: The batch failed, or was cancelled.
            JobNotFound: It was removed.
            TimeoutError: It did not end within *timeout*; it goes on.
        """
        handle: JobHandle[dict[str, int]] = JobHandle(self._connection, self.id, BATCH)
        return await handle.result(timeout)

    async def add(self, calls: Iterable[Call]) -> list[int]:
        """
        Add jobs while the batch has not ended, and return their ids.

        A member may do so at any time.  A batch that was cancelled, or that a failure
        ends, takes no more: nothing is added.

        Raises:
            InvalidTransition: The batch has ended.
            JobNotFound: It was removed.
            ValueError: A job would wait for one that waits for the batch.
        """
        calls = iterated(calls)
        batch = await self._read()
        if CANCELLED in batch.tags:
            return []
        if batch.state.is_final:
            raise InvalidTransition(self.id, batch.state, "take more jobs")
        options = BatchOptions.of(batch)
        held = await self._held(batch, options)
        if held is None:
            return []
        before, watch = held
        drafts = _all_joined(
            map(drafts_of, calls), flow=self.id, before=before, after=options.before
        )
        adding, store = LinkedAdd(self._connection), self._connection.store
        with suppress(NoMoreJobs):
            while chunk := list(islice(drafts, MAX_BATCH)):
                await refuse_cycles(store, chunk, {self.id, *before})
                for call in calls_of(chunk):
                    goes_on = options.allow_failures
                    await add_watched(adding, call, watch, goes_on=goes_on)
                    await stop_if_cancelled(store, self.id)
        await adding.run()
        return [one.id for one in adding.added]

    async def _held(
        self, batch: Job, options: BatchOptions
    ) -> tuple[tuple[int, ...], int | None] | None:
        """
        Return which jobs wait for a new member, and of those the first failure's.

        None if a failure ends the batch.  One that was retried waits for none: it looks
        again for as long as members have not ended.
        """
        if batch.state is not State.BLOCKED:
            return (), None
        watch_id = options.watch_of(batch)
        [watch] = await self._connection.store.get([watch_id]) if watch_id else [None]
        if watch is not None and watch.state is State.BLOCKED:
            return (self.id, watch.id), watch.id
        [counts] = await self._connection.store.flow_counts([self.id])
        if watch_id and counts.failed and not options.allow_failures:
            return None
        # Nothing waits for another failure.
        return (self.id,), None

    async def cancel(self, reason: str = "") -> None:
        """Cancel the jobs that have not started; those that run go on."""
        batch = await self._read()
        store = self._connection.store
        if not batch.state.is_final and CANCELLED not in batch.tags:
            await store.update([Change(self.id, tags=(*batch.tags, CANCELLED))])
        reason = reason or BATCH_CANCELLED
        if before := BatchOptions.of(batch).before:
            await cancel_not_started(store, await store.get(before), reason)
        await cancel_members(store, self.id, reason)

    async def retry_failed(self) -> int:
        """
        Run the jobs again that failed or were cancelled; return how many.

        A batch that had ended ends again once they have.
        """
        batch = await self._read()
        store = self._connection.store
        tags = tuple(tag for tag in batch.tags if tag != CANCELLED)
        await store.update([Change(self.id, tags=tags)])
        [counts] = await store.flow_counts([self.id])
        # An earlier retry may have been cut short after all jobs, and before the batch.
        is_due = batch.state is not State.COMPLETE or counts.failed + counts.cancelled
        is_retried = is_due and batch.state.is_final
        if is_retried:
            # Before its jobs, which may add to it; if we die, it looks at them later.
            at, seen = await store.now() + LATER_MS, (batch.state,)
            await store.move(MoveRequest([self.id], State.DELAYED, at, states=seen))
        number = await retry_members(store, self.id, BatchOptions.of(batch).before)
        if is_retried:
            states = (State.DELAYED, State.FAILED, State.CANCELLED)
            await store.move(MoveRequest([self.id], State.WAITING, states=states))
        # Its cancellation cancelled what was to run after its success.
        await restore_callbacks(store, batch, self.id)
        return number

    async def _read(self) -> Job:
        [job] = await self._connection.store.get([self.id])
        if job is None:
            raise JobNotFound(self.id)
        if job.type != BATCH:
            raise ValueError(f"job {self.id} of type {job.type!r} is not a batch")
        return job


class JobFlows:
    """What handlers do to flows: `kue.ActiveJob.batch` and `kue.ActiveJob.add`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def batch(self, batch_id: int) -> BatchHandle:
        return BatchHandle(self._connection, batch_id)

    async def add(
        self, parent: Job, calls: Iterable[Call], *, holds_next: bool
    ) -> list[int]:
        """Add jobs that belong to *parent*, before those after it if *holds_next*."""
        before = await self._after(parent) if holds_next else ()
        joined = _all_joined(map(drafts_of, calls), flow=parent.flow, before=before)
        drafts = list(joined)
        if before:
            await refuse_cycles(self._connection.store, drafts, before)
        adding = LinkedAdd(self._connection)
        await adding.add(
            [
                replace(draft, spec=replace(draft.spec, parent=parent.id))
                for draft in drafts
            ]
        )
        await adding.run()
        return [one.id for one in adding.added]

    async def _after(self, parent: Job) -> tuple[int, ...]:
        """Return the jobs of its flow that wait for *parent*."""
        flow = parent.id if parent.flow is None else parent.flow
        found: list[int] = []
        # All of them: a flow may be larger than what its graph shows.
        async for members in member_pages(self._connection.store, flow):
            found += [
                job.id
                for job in members
                if job.state is State.BLOCKED and parent.id in job.spec.after
            ]
        return tuple(found)


def iterated(calls: Iterable[Call]) -> Iterator[Call]:
    """Return an iterator of *calls*; raises `TypeError` for a single call."""
    if not isinstance(calls, Iterable):
        raise TypeError(
            f"a batch is made of a list of calls such as [task.s(…)], not {calls!r}"
        )
    return iter(calls)


def drafts_of(call: Call) -> list[Draft]:
    """
    Return the jobs of one call, which refer to each other by position.

    A batch waits for all its jobs, so those after a failed one are cancelled.
    """
    if isinstance(call, Draft):
        return [call]
    drafts = getattr(call, "drafts", None)
    if drafts is None:
        raise TypeError(
            f"a batch is made of signatures such as task.s(…), not of {call!r}"
        )
    made: list[Draft] = drafts("cancel")
    return made


def joined(
    drafts: list[Draft],
    start: int,
    *,
    flow: int | None,
    before: tuple[int, ...],
    after: tuple[int, ...] = (),
) -> Iterator[Draft]:
    """Yield *drafts* as members; the first is number *start* + 1 of all drafts."""
    for draft in drafts:
        moved = linked(draft, lambda at: at - start if at < 0 else at)
        yield replace(_held(moved, after), flow=flow, before=before)


def _held(draft: Draft, after: tuple[int, ...]) -> Draft:
    """Return a draft that waits for *after*, unless it waits for another member."""
    spec, policy = draft.spec, draft.on_parent_failure
    if not after:
        return draft
    # Members are cancelled if the callback fails: a catch of them is, too.
    waits_for_others = any(reference > 0 for reference in spec.after)
    if (policy == "run" and spec.after) or (policy == "only" and waits_for_others):
        raise ValueError(
            f"a job of a batch with before(…) cannot wait for others with "
            f"on_parent_failure={policy!r}: it would not wait for that callback to "
            "succeed"
        )
    if any(reference < 0 for reference in spec.after):
        return draft
    spec = replace(spec, after=(*spec.after, *after))
    return replace(draft, spec=spec, on_parent_failure="cancel")


def _all_joined(
    groups: Iterable[list[Draft]],
    *,
    flow: int | None,
    before: tuple[int, ...],
    after: tuple[int, ...] = (),
) -> Iterator[Draft]:
    start = 0
    for drafts in groups:
        yield from joined(drafts, start, flow=flow, before=before, after=after)
        start += len(drafts)


class NoMoreJobs(Exception):
    """The batch takes no more: a job of it failed, or it was cancelled."""


async def add_watched(
    adding: LinkedAdd, drafts: Sequence[Draft], watch: int | None, *, goes_on: bool
) -> None:
    """
    Add members of a batch whose job for the first failure is *watch*.

    Raises:
        NoMoreJobs: That one runs or has run, unless the batch *goes_on* then.
    """
    try:
        await adding.add(drafts)
    except (InvalidTransition, JobNotFound) as exc:
        if exc.job_id != watch:
            raise
        if not goes_on:
            raise NoMoreJobs from exc
        # Nothing waits for another failure.
        await adding.add([replace(one, before=one.before[:1]) for one in drafts])


async def stop_if_cancelled(store: Store, batch_id: int) -> None:
    """
    Cancel what was added to a batch if it was cancelled before all of that was stored.

    Raises:
        NoMoreJobs: It was.
    """
    [batch] = await store.get([batch_id])
    if batch is not None and CANCELLED in batch.tags:
        await cancel_members(store, batch_id, BATCH_CANCELLED)
        raise NoMoreJobs
