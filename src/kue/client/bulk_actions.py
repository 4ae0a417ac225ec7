"""
Bulk actions on jobs: on those given, or on all ended ones that match; error groups.

Everything goes in batches of 500, so that a million jobs are never in memory.  A job
that changed, was removed or was retried by someone else in the meantime is not an
error: each result reports what happened to its job.

Jobs are given by id, or as they were read (`Job`).  In the latter case the store acts
on that very job, and where an ending matters on that very ending: a job that has ended
again since is left as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from kue.model.duration import Duration, milliseconds
from kue.model.errors import JobError
from kue.model.fingerprint import fingerprint, first_line, shape
from kue.model.job import FINAL, PROMOTABLE, UNKNOWN_ERROR, Error, State
from kue.store.reply_errors import check_reply
from kue.store.values import (
    MAX_BATCH,
    ErrorGroup,
    ExpectedState,
    MoveRequest,
    RemoveRequest,
    Reply,
    Result,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from kue.client.connection import Connection
    from kue.client.selection import Selection
    from kue.model.job import Job

#: Past this many groups, new ones are counted by type and kind alone.
MAX_GROUPS = 1000
#: Called with how many jobs were processed so far.
OnProgress = Callable[[int], None]
_GONE = Reply(Result.GONE)
#: A job by its id, or as it was read.
JobGiven: TypeAlias = "int | Job"
#: A verb of the store, called with ids and what was seen of their jobs.
_Act: TypeAlias = (
    "Callable[[Sequence[int], Mapping[int, ExpectedState]], Awaitable[list[Reply]]]"
)
_ActOnMany: TypeAlias = "Callable[[Sequence[Job]], Awaitable[list[BulkResult]]]"


class ErrorCounter:
    """Counts jobs by their error, in bounded memory."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, str], ErrorGroup] = {}
        self.jobs = 0

    def count(self, job: Job) -> None:
        """Add *job* to its group."""
        self.jobs += 1
        error = job.error or UNKNOWN_ERROR
        key = (job.type, error.kind, shape(error.message))
        if key not in self._groups and len(self._groups) >= MAX_GROUPS:
            key, error = (job.type, error.kind, ""), Error(error.kind, "")
        at = job.ended_at or job.updated_at
        group = ErrorGroup(
            fingerprint=fingerprint(error),
            type=job.type,
            kind=error.kind,
            message=first_line(error.message),
            count=1,
            first_at=at,
            last_at=at,
            job_id=job.id,
        )
        if known := self._groups.get(key):
            newest = group if at >= known.last_at else known
            group = msgspec.structs.replace(
                newest, count=known.count + 1, first_at=min(known.first_at, at)
            )
        self._groups[key] = group

    def groups(self) -> list[ErrorGroup]:
        """Return the groups, the largest first."""
        return sorted(self._groups.values(), key=lambda group: -group.count)


class BulkResult(NamedTuple):
    """What happened to one job of many."""

    job_id: int
    word: Result
    #: Why it was not done; None when it was, is so already, or will be done.
    error: JobError | None = None


class BulkSummary(NamedTuple):
    """What happened to all jobs that matched."""

    done: int = 0
    #: Removed, or in another state when their turn came.
    changed: int = 0
    #: Left as they are: another job holds their unique key.
    held: int = 0

    @property
    def total(self) -> int:
        return self.done + self.changed + self.held

    def plus(self, results: Iterable[BulkResult]) -> BulkSummary:
        """Return the summary with *results* added."""
        done, changed, held = self
        for result in results:
            if result.error is None:
                done += 1
            elif result.word is Result.HELD:
                held += 1
            else:
                changed += 1
        return BulkSummary(done, changed, held)


class BulkActions:
    """The methods of a queue that act on many jobs."""

    _connection: Connection

    # -- jobs that are given ---------------------------------------------------

    async def retry_many(
        self,
        jobs: Iterable[JobGiven],
        *,
        delay: Duration = 0,
        states: Iterable[State] = FINAL,
    ) -> list[BulkResult]:
        """
        Requeue ended jobs, after *delay*; only those in one of *states*.

        Their attempts start again from 0.  One that waits already is left as it is, and
        the word of one that was retried since it was read is ALREADY.
        """
        wait = milliseconds(delay, field="delay")
        at = await self._connection.store.now() + wait if wait else None
        to = State.DELAYED if wait else State.WAITING
        act = self._mover(to, at, states)
        return await self._in_batches(jobs, act, wanted="be retried", reads=True)

    async def promote_many(
        self, jobs: Iterable[JobGiven], *, states: Iterable[State] = PROMOTABLE
    ) -> list[BulkResult]:
        """Let jobs run now that are delayed or wait for others."""
        act = self._mover(State.WAITING, None, states)
        return await self._in_batches(jobs, act, wanted="be promoted")

    async def cancel_many(
        self, jobs: Iterable[JobGiven], *, reason: str = ""
    ) -> list[BulkResult]:
        """Cancel jobs; for one that runs the word is ASKED: its worker will end it."""
        cancel = self._connection.store.cancel
        return await self._in_batches(
            jobs,
            lambda ids, seen: cancel(ids, reason=reason, seen=seen),
            wanted="be cancelled",
        )

    async def remove_many(
        self,
        jobs: Iterable[JobGiven],
        *,
        force: bool = False,
        states: Iterable[State] | None = None,
    ) -> list[BulkResult]:
        """
        Delete jobs with their logs; running ones only with *force*.

        With *states*, only jobs that are in one of those at that very moment.
        """
        allowed = None if states is None else frozenset(states)
        remove = self._connection.store.remove
        return await self._in_batches(
            jobs,
            lambda ids, seen: remove(RemoveRequest(ids, force, allowed, seen)),
            wanted="be removed",
        )

    async def move_many(
        self, jobs: Iterable[JobGiven], to: State, *, at: int | None = None
    ) -> list[BulkResult]:
        """
        Move jobs to ``waiting``, or to ``delayed`` until *at* (Unix ms).

        Those that had ended when they were read start again; one that ended after that
        is left as it is.

        Raises:
            ValueError: *to* is another state, or *at* is missing.
        """
        act = self._mover(to, at, None)
        return await self._in_batches(jobs, act, wanted=f"be moved to {to}", reads=True)

    # -- all that match --------------------------------------------------------

    async def ended(
        self, wanted: Selection, *, descending: bool = False
    ) -> AsyncIterator[list[Job]]:
        """Yield the jobs that match, up to 500 at a time, by the time they ended."""
        cursor = wanted.start(descending=descending)
        # Else the store would look for more of them beyond the wanted time.
        anytime = msgspec.structs.replace(wanted, since=None, until=None)
        while True:
            page = await self._connection.store.find(
                anytime, limit=MAX_BATCH, cursor=cursor, descending=descending
            )
            if jobs := [job for job in page.jobs if wanted.covers(job)]:
                yield jobs
            cursor = page.cursor
            if cursor is None or wanted.ends_before(cursor, descending=descending):
                return

    async def retry_all(
        self,
        wanted: Selection,
        *,
        delay: Duration = 0,
        on_progress: OnProgress | None = None,
    ) -> BulkSummary:
        """
        Requeue all jobs that match and have ended by now.

        One that fails again in the meantime is not retried a second time.
        """
        act = partial(self.retry_many, delay=delay, states={wanted.state})
        return await self._act_on_all(wanted, act, on_progress)

    async def remove_all(
        self, wanted: Selection, *, on_progress: OnProgress | None = None
    ) -> BulkSummary:
        """Delete all jobs that match and have ended by now."""
        act = partial(self.remove_many, states={wanted.state})
        return await self._act_on_all(wanted, act, on_progress)

    async def group_errors(
        self, wanted: Selection, *, on_progress: OnProgress | None = None
    ) -> list[ErrorGroup]:
        """Return the errors of the failed jobs that match, the most frequent first."""
        counter = ErrorCounter()
        async for jobs in self.ended(wanted):
            for job in jobs:
                counter.count(job)
            if on_progress is not None:
                on_progress(counter.jobs)
        return counter.groups()

    # -- how -------------------------------------------------------------------

    async def _act_on_all(
        self, wanted: Selection, act: _ActOnMany, on_progress: OnProgress | None
    ) -> BulkSummary:
        # Jobs that end from now on are ahead in the walk: they would be acted on again.
        now = await self._connection.store.now()
        summary = BulkSummary()
        async for jobs in self.ended(wanted.until_at_most(now + 1)):
            summary = summary.plus(await act(jobs))
            if on_progress is not None:
                on_progress(summary.total)
        return summary

    def _mover(self, to: State, at: int | None, states: Iterable[State] | None) -> _Act:
        allowed = None if states is None else frozenset(states)
        move = self._connection.store.move
        return lambda ids, seen: move(MoveRequest(ids, to, at, allowed, seen))

    async def _in_batches(
        self,
        jobs: Iterable[JobGiven],
        act: _Act,
        *,
        wanted: str,
        reads: bool = False,
    ) -> list[BulkResult]:
        """Call *act* with jobs; with *reads*, those given by id are read first."""
        given = {one if isinstance(one, int) else one.id: one for one in jobs}
        results: list[BulkResult] = []
        ids = list(given)
        for start in range(0, len(ids), MAX_BATCH):
            batch = ids[start : start + MAX_BATCH]
            known = [job for id in batch if not isinstance(job := given[id], int)]
            unread = [id for id in batch if isinstance(given[id], int)]
            if reads and unread:
                known += filter(None, await self._connection.store.get(unread))
            seen = {job.id: ExpectedState.of(job) for job in known}
            # A job that was not found is not acted on, even if it exists by then.
            there = [id for id in batch if id in seen] if reads else batch
            replies = dict(zip(there, await act(there, seen), strict=True))
            results += (_result(id, replies.get(id, _GONE), wanted) for id in batch)
        return results


def _result(job_id: int, reply: Reply, wanted: str) -> BulkResult:
    try:
        return BulkResult(job_id, check_reply(job_id, reply, wanted=wanted))
    except JobError as exc:
        return BulkResult(job_id, reply.word, exc)
