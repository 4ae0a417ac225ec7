"""
R-1: eight operators promote and retry the same jobs while workers run them.

The stories of the jobs are the account: a job that ended runs again only after it was
restarted, and every restart is the answer to one retry of the ending before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import NamedTuple

import pytest

from kue import ActiveJob, InvalidTransition, Kue, Selection, State
from kue.model.job import Job
from kue.store.values import Result
from tests.support.engines import Engine

JOBS = 60
#: Each retries a job at most so often: what is kept of a story must be all of it.
ROUNDS = 2


class Retry(NamedTuple):
    """A retry that was answered with "done": of which job, and which ending of it."""

    job_id: int
    ending: str


class Operator:
    """Does the same to all jobs, again and again, as others do beside it."""

    def __init__(self, q: Kue, done: list[Retry]) -> None:
        self._q = q
        self._done = done

    async def promote(self, ids: Iterable[int]) -> None:
        for job_id in ids:
            handle = await self._q.get(job_id)
            try:
                await handle.promote()
            except InvalidTransition:
                continue

    async def promote_many(self, ids: Iterable[int]) -> None:
        await self._q.promote_many(ids)

    async def retry(self, ids: Iterable[int]) -> None:
        for job_id in ids:
            handle = await self._q.get(job_id)
            job = handle.job
            if job is not None and job.ending and await handle.retry():
                self._done.append(Retry(job.id, job.ending))

    async def retry_many(self) -> None:
        ended_by_now = Selection(state=State.FAILED, until=await self._q.now() + 1)
        async for jobs in self._q.ended(ended_by_now):
            answers = await self._q.retry_many(jobs)
            for job, answer in zip(jobs, answers, strict=True):
                if answer.word is Result.DONE:
                    assert job.ending
                    self._done.append(Retry(job.id, job.ending))


def make_queue(place: Engine) -> Kue:
    return Kue(place.settings.url, prefix=place.settings.prefix)


async def fail(job: ActiveJob) -> None:
    raise ValueError("oops")


async def succeed(job: ActiveJob) -> None:
    await job.log("ran")


async def settled(q: Kue) -> None:
    """Return once no job is ready or runs."""
    while any(  # noqa: ASYNC110 - there is no event to wait for
        [await q.count(state) for state in (State.WAITING, State.ACTIVE)]
    ):
        await asyncio.sleep(0.01)


def restarted_endings(job: Job) -> list[Retry]:
    """Return the endings that a restart follows; after any other nothing may follow."""
    found = []
    for before, after in pairwise(job.history):
        if after.outcome == "restarted":
            found.append(Retry(job.id, f'{{"run":"{before.token}","at":{before.at},'))
        else:
            assert before.outcome == "restarted", job.history
    return found


async def operate(
    operators: list[Operator], later: list[int], fails: list[int]
) -> None:
    """Let all of them do what they do, at once."""
    a, b, c, d, e, f, g, h = operators
    await asyncio.gather(
        *(a.promote(later), b.promote(later)),
        *(c.promote_many(later), d.promote_many(later)),
        *(e.retry(fails), f.retry(fails)),
        *(g.retry_many(), h.retry_many()),
    )


@pytest.mark.parametrize("place", ["sqlite", "redis"], indirect=True)
async def test_no_ended_job_runs_again_unless_that_ending_was_retried(
    place: Engine,
) -> None:
    """R-1: single and bulk, promote and retry, on jobs that end all the time."""
    done: list[Retry] = []
    async with AsyncExitStack() as stack:
        q, *others = [
            await stack.enter_async_context(make_queue(place)) for _ in range(9)
        ]
        q.process("later", 10, succeed)
        q.process("fails", 10, fail)
        later = [(await q.enqueue("later", i, delay="1h")).id for i in range(JOBS)]
        fails = [(await q.enqueue("fails", i)).id for i in range(JOBS)]
        async with q.work():
            await settled(q)
            for _ in range(ROUNDS):
                await operate([Operator(q, done) for q in others], later, fails)
            await settled(q)
        stories = [(await q.get(job_id)).job for job_id in (*later, *fails)]

    jobs = [job for job in stories if job is not None]
    promoted, retried = jobs[:JOBS], jobs[JOBS:]
    assert {len(job.history) for job in promoted} == {1}
    restarts = [retry for job in retried for retry in restarted_endings(job)]
    assert sorted(restarts) == sorted(done)
    assert len(set(done)) == len(done)
    # There was something to get wrong.
    assert len(done) >= JOBS
