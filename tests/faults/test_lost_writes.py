"""
R-3: the store lost its last writes, and gives their ids again.

Redis is killed and comes back with an older snapshot; a SQLite file is overwritten with
an older copy.  A handle of a job that was lost finds no job, whatever it is asked for,
and the job that has the id now is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from kue import ActiveJob, JobHandle, JobNotFound, Kue, State
from kue.client.sync.handle import SyncJobHandle
from kue.model.job import Job
from kue.model.retry_policy import LOST_ENDING
from kue.worker import lost_endings
from tests.faults.conftest import NewServer
from tests.faults.forgetful import Forgetful, ForgetfulRedis
from tests.support.leases import PATIENT_LEASE_SECONDS
from tests.support.patience import PATIENCE_SECONDS, until


@pytest.fixture
async def q(forgetful: Forgetful) -> AsyncIterator[Kue]:
    async with Kue(forgetful.url) as q:
        yield q


async def lose(
    q: Kue, forgetful: Forgetful, *handles: JobHandle[Any]
) -> dict[int, Job]:
    """Lose the jobs of *handles*; return those that have their ids after that."""
    forgetful.lose_writes()
    # A fail-over takes more than the millisecond that tells two jobs apart.
    await asyncio.sleep(0.002)
    last = max(handle.id for handle in handles)
    others: dict[int, Job] = {}
    while last not in others:
        other = await q.enqueue(handles[0].type, "another")
        others[other.id] = await other.refresh()
    assert {handle.id for handle in handles} <= set(others)
    return others


VERBS: dict[str, Callable[[JobHandle[Any]], Awaitable[object]]] = {
    "refresh": lambda job: job.refresh(),
    "cancel": lambda job: job.cancel(),
    "remove": lambda job: job.remove(force=True),
    "retry": lambda job: job.retry(),
    "retry with data": lambda job: job.retry(data=1),
    "promote": lambda job: job.promote(),
    "delay": lambda job: job.delay("1h"),
    "update": lambda job: job.update(data=1, priority=5),
    "log": lambda job: job.log("hello"),
    "logs": lambda job: job.logs(),
    "progress": lambda job: job.progress(1, 2),
    "result": lambda job: job.result(timeout=PATIENCE_SECONDS),
}


async def fails_to_find(call: Awaitable[object]) -> bool:
    try:
        await call
    except JobNotFound:
        return True
    return False


async def test_no_verb_of_a_handle_touches_the_job_that_has_its_id(
    q: Kue, forgetful: Forgetful
) -> None:
    """R-3: the handle knows its job from the add, without having read it."""
    await q.enqueue("email", "first")
    forgetful.remember()
    lost = await q.enqueue("email", "lost")
    [many] = await q.enqueue_many("email", ["lost"])
    built = await q.create_job("email", "lost").save()
    before = await lose(q, forgetful, lost, many, built)

    for handle in (lost, many, built):
        for name, verb in VERBS.items():
            assert await fails_to_find(verb(handle)), name
        assert await (await q.get(handle.id)).refresh() == before[handle.id]
        assert await q.logs(handle.id) == []


async def test_a_key_that_is_held_names_the_job_that_holds_it(
    q: Kue, forgetful: Forgetful
) -> None:
    """R-3: the handle of a job that was there already knows when that was created."""
    await q.enqueue("email", "first")
    forgetful.remember()
    await q.enqueue("email", unique="k")
    # So that the holder's time is not that of the call which finds it.
    await asyncio.sleep(0.002)
    held = await q.enqueue("email", unique="k")
    assert not held.is_new
    await held.log("hello")

    others = await lose(q, forgetful, held)

    with pytest.raises(JobNotFound):
        await held.cancel()
    assert await (await q.get(held.id)).refresh() == others[held.id]


async def test_a_task_and_ordinary_code_know_their_job_as_well(
    q: Kue, forgetful: Forgetful
) -> None:
    @q.task
    async def email(to: str) -> None: ...

    await email.enqueue("first")
    forgetful.remember()
    lost = await email.enqueue("lost")
    [many] = await email.enqueue_many([{"to": "lost"}])
    blocking = await asyncio.to_thread(email.delay, "lost")
    await lose(q, forgetful, lost, many, blocking._handle)

    for handle in (lost, many):
        with pytest.raises(JobNotFound):
            await handle.cancel()
    assert isinstance(blocking, SyncJobHandle)
    with pytest.raises(JobNotFound):
        await asyncio.to_thread(blocking.cancel)


@pytest.mark.long
async def test_a_result_is_never_that_of_another_job(
    q: Kue, forgetful: Forgetful
) -> None:
    """R-3: the wait began before the loss; the other job has run to its end."""
    ran: list[object] = []

    @q.process("email")
    async def run(job: ActiveJob) -> str:
        ran.append(job.data)
        return "of another job"

    await q.enqueue("email", "first")
    forgetful.remember()
    lost = await q.enqueue("email", "lost")
    waiting = asyncio.create_task(lost.result(timeout=PATIENCE_SECONDS))
    # It waits once it has read the job.
    while lost.job is None:  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0.01)
    await lose(q, forgetful, lost)

    async with q.work():
        with pytest.raises(JobNotFound):
            await waiting


async def test_a_job_whose_end_was_lost_runs_again(
    new_server: NewServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the store it runs here, and this worker, which knows better, lives on."""
    monkeypatch.setattr(lost_endings, "PATIENCE_SECONDS", 3)
    forgetful = ForgetfulRedis(new_server())
    runs: list[int] = []
    may_end = asyncio.Event()
    async with Kue(forgetful.url, lease=PATIENT_LEASE_SECONDS) as q:

        @q.process("email", 2)
        async def run(job: ActiveJob) -> int:
            runs.append(job.fence)
            await may_end.wait()
            return len(runs)

        async with q.work():
            job = await q.enqueue("email")
            await until(lambda: len(runs) == 1)
            forgetful.remember()
            may_end.set()
            assert await job.result(timeout=PATIENCE_SECONDS) == 1

            await asyncio.to_thread(forgetful.lose_writes)
            assert (await job.refresh()).state is State.ACTIVE

            assert await job.result(timeout=100) == 2
            [lost, done] = (await job.refresh()).history

    assert (lost.outcome, lost.reason) == ("released", LOST_ENDING)
    assert (done.outcome, len(set(runs))) == ("complete", 2)
