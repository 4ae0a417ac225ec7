"""
The verbs of a queue that act on many jobs: those named, or all ended ones that match.

Everything goes in batches of 500, so that a million jobs are never in memory.  A job
that changed, was removed or was retried by someone else meanwhile is no error: each
answer says what became of its job.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kue.duration import Duration, milliseconds
from kue.errors import JobError
from kue.failures import Tally
from kue.job import FINAL, State
from kue.replies import check_reply
from kue.store.values import MAX_BATCH, ErrorGroup, Reply, Word

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kue.job import Job
    from kue.selection import Selection
    from kue.session import Session

#: Called with how many jobs were looked at so far.
OnSwept = Callable[[int], None]


class Answer(NamedTuple):
    """What became of one job of many."""

    job_id: int
    word: Word
    #: Why it was not done; None when it is so now, or will be.
    error: JobError | None = None


class Swept(NamedTuple):
    """What became of all that matched."""

    done: int = 0
    #: Removed, or in another state by the time we came to it.
    changed: int = 0
    #: Left as they are: another job has taken their unique key.
    held: int = 0

    @property
    def total(self) -> int:
        return self.done + self.changed + self.held

    def plus(self, answers: Iterable[Answer]) -> Swept:
        """Return the sum with *answers* counted."""
        done, changed, held = self
        for answer in answers:
            if answer.error is None:
                done += 1
            elif answer.word is Word.HELD:
                held += 1
            else:
                changed += 1
        return Swept(done, changed, held)


_Act: TypeAlias = Callable[[Sequence[int]], Awaitable[list[Reply]]]
_ActOnMany: TypeAlias = Callable[[Sequence[int]], Awaitable[list[Answer]]]


class Sweeping:
    """What can be asked of a queue about many jobs at once."""

    _session: Session

    # -- jobs that are named ---------------------------------------------------

    async def retry_many(
        self,
        job_ids: Iterable[int],
        *,
        delay: Duration = 0,
        states: Iterable[State] = FINAL,
    ) -> list[Answer]:
        """
        Put ended jobs back in line, after *delay*; each may be retried from *states*.

        Their attempts count from nothing.  One that waits already is left as it is.
        """
        wait = milliseconds(delay, field="delay")
        allowed = frozenset(states) | (frozenset() if wait else {State.WAITING})
        at = await self._session.store.now() + wait if wait else None
        to = State.DELAYED if wait else State.WAITING

        async def act(ids: Sequence[int]) -> list[Reply]:
            return await self._session.store.move(ids, to, at=at)

        return await self._guarded(job_ids, act, allowed, wanted="be retried")

    async def cancel_many(
        self, job_ids: Iterable[int], *, reason: str = ""
    ) -> list[Answer]:
        """Cancel jobs; for one that runs the word is ASKED: its worker will end it."""

        async def act(ids: Sequence[int]) -> list[Reply]:
            return await self._session.store.cancel(ids, reason=reason)

        return await self._in_batches(job_ids, act, wanted="be cancelled")

    async def remove_many(
        self,
        job_ids: Iterable[int],
        *,
        force: bool = False,
        states: Iterable[State] | None = None,
    ) -> list[Answer]:
        """
        Delete jobs with their logs; running ones only by *force*.

        With *states*, only jobs that are in one of those at that very moment.
        """
        allowed = None if states is None else frozenset(states)

        async def act(ids: Sequence[int]) -> list[Reply]:
            return await self._session.store.remove(ids, force=force, states=allowed)

        return await self._in_batches(job_ids, act, wanted="be removed")

    async def move_many(
        self, job_ids: Iterable[int], to: State, *, at: int | None = None
    ) -> list[Answer]:
        """
        Move jobs to ``waiting``, or to ``delayed`` until *at* (Unix ms).

        Raises:
            ValueError: Jobs are moved to neither, or *at* is missing.
        """

        async def act(ids: Sequence[int]) -> list[Reply]:
            return await self._session.store.move(ids, to, at=at)

        return await self._in_batches(job_ids, act, wanted=f"be moved to {to}")

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
    ) -> Swept:
        """
        Put all jobs back in line that match and have ended by now.

        One that fails again while this goes on is not retried a second time.
        """

        async def act(ids: Sequence[int]) -> list[Answer]:
            return await self.retry_many(ids, delay=delay, states={wanted.state})

        return await self._sweep(wanted, act, on_progress)

    async def remove_all(
        self, wanted: Selection, *, on_progress: OnSwept | None = None
    ) -> Swept:
        """Delete all jobs that match and have ended by now."""

        async def act(ids: Sequence[int]) -> list[Answer]:
            return await self.remove_many(ids, states={wanted.state})

        return await self._sweep(wanted, act, on_progress)

    async def group_errors(
        self, wanted: Selection, *, on_progress: OnSwept | None = None
    ) -> list[ErrorGroup]:
        """Return what the jobs that match failed of, the most frequent first."""
        tally = Tally()
        async for jobs in self.ended(wanted):
            for job in jobs:
                tally.count(job)
            if on_progress is not None:
                on_progress(tally.jobs)
        return tally.groups()

    # -- how -------------------------------------------------------------------

    async def _sweep(
        self, wanted: Selection, act: _ActOnMany, on_progress: OnSwept | None
    ) -> Swept:
        # What ends from now on lies ahead of us, where we would come past it again.
        now = await self._session.store.now()
        swept = Swept()
        async for jobs in self.ended(wanted.until_at_most(now + 1)):
            swept = swept.plus(await act([job.id for job in jobs]))
            if on_progress is not None:
                on_progress(swept.total)
        return swept

    async def _in_batches(
        self, job_ids: Iterable[int], act: _Act, *, wanted: str
    ) -> list[Answer]:
        ids = list(dict.fromkeys(job_ids))
        answers: list[Answer] = []
        for start in range(0, len(ids), MAX_BATCH):
            batch = ids[start : start + MAX_BATCH]
            replies = await act(batch)
            answers += map(_answer, batch, replies, [wanted] * len(batch))
        return answers

    async def _guarded(
        self, job_ids: Iterable[int], act: _Act, states: Iterable[State], *, wanted: str
    ) -> list[Answer]:
        """Do *act* to those that are in one of *states*; the others are refused."""
        allowed = frozenset(states)

        async def act_on_fit(ids: Sequence[int]) -> list[Reply]:
            jobs = await self._session.store.get(ids)
            refused = {
                job_id: reply
                for job_id, job in zip(ids, jobs, strict=True)
                if (reply := _refusal(job, allowed)) is not None
            }
            fit = [job_id for job_id in ids if job_id not in refused]
            done = dict(zip(fit, await act(fit) if fit else (), strict=True))
            return [(done | refused)[job_id] for job_id in ids]

        return await self._in_batches(job_ids, act_on_fit, wanted=wanted)


def _refusal(job: Job | None, allowed: frozenset[State]) -> Reply | None:
    if job is None:
        return Reply(Word.GONE)
    return None if job.state in allowed else Reply(Word.REFUSED, state=job.state)


def _answer(job_id: int, reply: Reply, wanted: str) -> Answer:
    try:
        return Answer(job_id, check_reply(job_id, reply, wanted=wanted))
    except JobError as exc:
        return Answer(job_id, reply.word, exc)
