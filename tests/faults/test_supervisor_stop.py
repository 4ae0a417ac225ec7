"""Stopping ``kue worker``: in order, at once, and the hard way."""

from __future__ import annotations

import signal

import pytest

from kue.model.job import State
from tests.faults.supervised import Shift
from tests.support.jobs import count_of


async def test_under_load_nothing_is_lost_and_nothing_counted_twice(
    shift: Shift,
) -> None:
    # The last of them outlast any delay before the signal arrives.
    go_on = shift.folder / "go-on"
    ids = await shift.add("nap", seconds=0.1, count=400)
    ids += await shift.add("nap", until=go_on, count=100)
    async with shift.start("--processes", "2", "--grace", "10m") as workers:
        said = [await workers.line() for _ in range(100)]
        workers.signal(signal.SIGTERM)
        await workers.logged("stopping: jobs may end within 600 s")
        go_on.touch()
        said += await workers.lines()
        code = await workers.ended()

    assert code == 0
    started = [int(job) for word, job, _ in said if word == "started"]
    returned = [int(job) for word, job, _ in said if word == "returned"]
    # Each once, and all that was begun has ended.
    assert sorted(started) == sorted(returned)
    assert len(set(started)) == len(started) < len(ids)
    assert await count_of(shift.store, "nap") == {
        State.COMPLETE: len(started),
        State.WAITING: len(ids) - len(started),
    }
    jobs = await shift.store.get(started)
    assert [len(job.history) for job in jobs if job is not None] == [1] * len(started)


@pytest.mark.parametrize(("type", "grace"), [("nap", "300ms"), ("thread", "100ms")])
async def test_what_does_not_end_within_the_grace_is_handed_back(
    shift: Shift, type: str, grace: str
) -> None:
    """Threads that never end keep no process."""
    [job_id] = await shift.add(type, seconds=600)
    async with shift.start("--grace", grace) as workers:
        await workers.line()
        code = await workers.stopped()

    job = await shift.job(job_id)
    assert code == 0
    assert (job.state, job.attempts) == (State.WAITING, 0)


async def test_a_second_signal_hands_back_at_once(shift: Shift) -> None:
    [job_id] = await shift.add("nap", seconds=600)
    async with shift.start("--grace", "10m") as workers:
        await workers.line()
        workers.signal(signal.SIGTERM)
        await workers.logged("stopping: jobs may end within 600 s")
        workers.signal(signal.SIGINT)
        # Nobody here waits for as long as the grace.
        code = await workers.ended()

    job = await shift.job(job_id)
    assert code == 0
    assert (job.state, job.attempts) == (State.WAITING, 0)


async def test_a_third_signal_kills(shift: Shift) -> None:
    await shift.add("hold", seconds=600)
    async with shift.start("--grace", "10m") as workers:
        await workers.line()
        for text in ("stopping: jobs", "stopping now", "killing"):
            workers.signal(signal.SIGTERM)
            await workers.logged(text)
        code = await workers.ended()
        await workers.logged("was killed by SIGKILL")

    assert code == 1


async def test_a_child_that_does_not_respond_is_killed_when_the_grace_is_over(
    shift: Shift,
) -> None:
    [job_id] = await shift.add("hold", seconds=600)
    async with shift.start("--grace", "3s") as workers:
        await workers.line()
        workers.signal(signal.SIGTERM)
        await workers.logged("did not leave in time")
        code = await workers.ended()

    assert code == 1
    # It will be taken back by the next worker.
    assert (await shift.job(job_id)).state is State.ACTIVE
