"""
The verbs of a queue that act on many jobs: those named, or all ended ones that match.

Everything goes in batches of 500, so that a million jobs are never in memory.  A job
that changed, was removed or was retried by someone else in the meantime is not an
error: each answer says what became of its job.

Jobs are named by id, or given as they were read (`Job`).  The store then acts on that
very job, and where an ending matters on that very ending: a job that ended again since
is left as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kue.client.error_groups import ErrorCounter
from kue.model.duration import Duration, milliseconds
from kue.model.errors import JobError
from kue.model.job import FINAL, PROMOTABLE, State
from kue.store.replies import check_reply
from kue.store.values import MAX_BATCH, ErrorGroup, ExpectedState, Reply, Result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kue.client.connection import Connection
    from kue.client.filters import Selection
    from kue.model.job import Job

#: Called with how many jobs were looked at so far.
OnSwept = Callable[[int], None]
_GONE = Reply(Result.GONE)


class BulkResult(NamedTuple):
    """What became of one job of many."""

    job_id: int
    word: Result
    #: Why it was not done; None when it is so now, or will be.
    error: JobError | None = None


class BulkSummary(NamedTuple):
    """What became of all that matched."""

    done: int = 0
    #: Removed, or in another state by the time we came to it.
    changed: int = 0
    #: Left as they are: another job has taken their unique key.
    held: int = 0

    @property
    def total(self) -> int:
        return self.done + self.changed + self.held

    def plus(self, answers: Iterable[BulkResult]) -> BulkSummary:
        """Return the sum with *answers* counted."""
        done, changed, held = self
        for answer in answers:
            if answer.error is None:
                done += 1
            elif answer.word is Result.HELD:
                held += 1
            else:
                changed += 1
        return BulkSummary(done, changed, held)


#: A job by its id, or as it was read.
JobGiven: TypeAlias = "int | Job"
_Act: TypeAlias = Callable[
    [Sequence[int], Mapping[int, ExpectedState]], Awaitable[list[Reply]]
]
_ActOnMany: TypeAlias = "Callable[[Sequence[Job]], Awaitable[list[BulkResult]]]"


class BulkActions:
    """What can be asked of a queue about many jobs at once."""

    _session: Connection

    # -- jobs that are named ---------------------------------------------------

    async def retry_many(
        self,
        jobs: Iterable[JobGiven],
        *,
        delay: Duration = 0,
        states: Iterable[State] = FINAL,
    ) -> list[BulkResult]:
        """
        Put ended jobs back in line, after *delay*; each may be retried from *states*.

        Their attempts count from nothing.  One that waits already is left as it is, and
        one that was retried since it was read is ALREADY.
        """
        wait = milliseconds(delay, field="delay")
        at = await self._session.store.now() + wait if wait else None
        to = State.DELAYED if wait else State.WAITING
        act = self._mover(to, at, states)
        return await self._in_batches(jobs, act, wanted="be retried", reads=True)

    async def promote_many(
        self, jobs: Iterable[JobGiven], *, states: Iterable[State] = PROMOTABLE
    ) -> list[BulkResult]:
        """Let jobs that are delayed or wait for others run now."""
        act = self._mover(State.WAITING, None, states)
        return await self._in_batches(jobs, act, wanted="be promoted")

    async def cancel_many(
        self, jobs: Iterable[JobGiven], *, reason: str = ""
    ) -> list[BulkResult]:
        """Cancel jobs; for one that runs the word is ASKED: its worker will end it."""

        async def act(
            ids: Sequence[int], seen: Mapping[int, ExpectedState]
        ) -> list[Reply]:
            return await self._session.store.cancel(ids, reason=reason, seen=seen)

        return await self._in_batches(jobs, act, wanted="be cancelled")

    async def remove_many(
        self,
        jobs: Iterable[JobGiven],
        *,
        force: bool = False,
        states: Iterable[State] | None = None,
    ) -> list[BulkResult]:
        """
        Delete jobs with their logs; running ones only by *force*.

        With *states*, only jobs that are in one of those at that very moment.
        """
        allowed = None if states is None else frozenset(states)

        async def act(
            ids: Sequence[int], seen: Mapping[int, ExpectedState]
        ) -> list[Reply]:
            return await self._session.store.remove(
                ids, force=force, states=allowed, seen=seen
            )

        return await self._in_batches(jobs, act, wanted="be removed")

    async def move_many(
        self, jobs: Iterable[JobGiven], to: State, *, at: int | None = None
    ) -> list[BulkResult]:
        """
        Move jobs to ``waiting``, or to ``delayed`` until *at* (Unix ms).

        Those that had ended when they were read start again; one that ends only then is
        left as it is.

        Raises:
            ValueError: Jobs are moved to neither, or *at* is missing.
        """
        act = self._mover(to, at, None)
        return await self._in_batches(jobs, act, wanted=f"be moved to {to}", reads=True)

    # -- all that match --------------------------------------------------------

    async def ended(
        self, wanted: Selection, *, descending: bool = False
    ) -> AsyncIterator[list[Job]]:
        """Yield the jobs that match, up to 500 at a time, by the time they ended."""
        cursor = wanted.start(descending=descending)
        while True:
            page = await self._session.store.find(
                wanted.filter, limit=MAX_BATCH, cursor=cursor, descending=descending
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
        on_progress: OnSwept | None = None,
    ) -> BulkSummary:
        """
        Put all jobs back in line that match and have ended by now.

        One that fails again while this goes on is not retried a second time.
        """

        async def act(jobs: Sequence[Job]) -> list[BulkResult]:
            return await self.retry_many(jobs, delay=delay, states={wanted.state})

        return await self._sweep(wanted, act, on_progress)

    async def remove_all(
        self, wanted: Selection, *, on_progress: OnSwept | None = None
    ) -> BulkSummary:
        """Delete all jobs that match and have ended by now."""

        async def act(jobs: Sequence[Job]) -> list[BulkResult]:
            return await self.remove_many(jobs, states={wanted.state})

        return await self._sweep(wanted, act, on_progress)

    async def group_errors(
        self, wanted: Selection, *, on_progress: OnSwept | None = None
    ) -> list[ErrorGroup]:
        """Return what the jobs that match failed of, the most frequent first."""
        tally = ErrorCounter()
        async for jobs in self.ended(wanted):
            for job in jobs:
                tally.count(job)
            if on_progress is not None:
                on_progress(tally.jobs)
        return tally.groups()

    # -- how -------------------------------------------------------------------

    async def _sweep(
        self, wanted: Selection, act: _ActOnMany, on_progress: OnSwept | None
    ) -> BulkSummary:
        # What ends from now on lies ahead of us, where we would come past it again.
        now = await self._session.store.now()
        swept = BulkSummary()
        async for jobs in self.ended(wanted.until_at_most(now + 1)):
            swept = swept.plus(await act(jobs))
            if on_progress is not None:
                on_progress(swept.total)
        return swept

    def _mover(self, to: State, at: int | None, states: Iterable[State] | None) -> _Act:
        allowed = None if states is None else frozenset(states)

        async def act(
            ids: Sequence[int], seen: Mapping[int, ExpectedState]
        ) -> list[Reply]:
            return await self._session.store.move(
                ids, to, at=at, states=allowed, seen=seen
            )

        return act

    async def _in_batches(
        self,
        jobs: Iterable[JobGiven],
        act: _Act,
        *,
        wanted: str,
        reads: bool = False,
    ) -> list[BulkResult]:
        """Do *act* to jobs; with *reads*, those that are only named are read first."""
        given = {one if isinstance(one, int) else one.id: one for one in jobs}
        ids = list(given)
        answers: list[BulkResult] = []
        for start in range(0, len(ids), MAX_BATCH):
            batch = ids[start : start + MAX_BATCH]
            seen = {
                job_id: ExpectedState.of(job)
                for job_id in batch
                if not isinstance(job := given[job_id], int)
            }
            if reads:
                seen |= await self._look([id for id in batch if id not in seen])
            # A job that is not there when we look is not acted on when it is.
            there = [id for id in batch if id in seen] if reads else batch
            replies = dict(zip(there, await act(there, seen), strict=True))
            answers += (_answer(id, replies.get(id, _GONE), wanted) for id in batch)
        return answers

    async def _look(self, job_ids: list[int]) -> dict[int, ExpectedState]:
        jobs = await self._session.store.get(job_ids) if job_ids else ()
        return {job.id: ExpectedState.of(job) for job in jobs if job is not None}


def _answer(job_id: int, reply: Reply, wanted: str) -> BulkResult:
    try:
        return BulkResult(job_id, check_reply(job_id, reply, wanted=wanted))
    except JobError as exc:
        return BulkResult(job_id, reply.word, exc)
