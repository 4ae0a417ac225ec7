"""Children and supervisors are killed, and no job is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial

import pytest

from kue.model.job import State
from tests.faults.supervised import (
    LEASE_SECONDS,
    Shift,
    get,
    is_there,
    patiently,
)
from tests.support.jobs import count_of, outcomes
from tests.support.patience import eventually


async def test_a_killed_child_is_logged_and_replaced_and_its_job_runs_again(
    shift: Shift, unused_tcp_port: int
) -> None:
    go_on = shift.folder / "go-on"
    [job_id] = await shift.add("nap", until=go_on)
    async with shift.start("--health-port", str(unused_tcp_port)) as workers:
        _, _, victim = await workers.line()
        # The child sends its status now and then.
        await eventually(lambda: running(unused_tcp_port))
        os.kill(int(victim), signal.SIGKILL)
        logged = await workers.logged("was killed by SIGKILL", f"pid {victim}")
        go_on.touch()
        job = await shift.ended(job_id)

    assert "worker process #1" in logged
    assert "1 jobs that it ran will run again" in logged
    assert job.result != int(victim)
    # It is the same attempt again: the crash was not the job's fault.
    assert outcomes(job) == ["stalled", "complete"]
    assert job.attempts == 1


async def running(port: int) -> int:
    """Return how many jobs the only child runs, as far as the supervisor knows."""
    _, condition = await get(port, "/readyz")
    [child] = condition["children"]
    return int(child["status"].get("running", 0))


async def test_the_job_of_a_killed_child_need_not_wait_for_its_lease(
    shift: Shift,
) -> None:
    """The supervisor knows that the process is gone, and says so."""
    [job_id] = await shift.add("nap", seconds=600)
    # Nobody here waits for as long as that.
    long = {"KUE_LEASE": "600s"}
    async with shift.start("--processes", "2", environ=long) as workers:
        _, _, victim = await workers.line()
        os.kill(int(victim), signal.SIGKILL)
        _, again, _ = await workers.line()

    assert again == str(job_id)


async def test_programs_that_a_killed_child_had_started_end_with_it(
    shift: Shift,
) -> None:
    await shift.add("spawn")
    async with shift.start() as workers:
        _, program, victim = await workers.line()
        os.kill(int(victim), signal.SIGKILL)
        await patiently(lambda: not is_there(int(program)))


@pytest.mark.parametrize("end", ["stop", "replace", "kill", "orphan"])
async def test_copies_that_a_handler_forked_end_with_their_child(
    lone: Shift, end: str
) -> None:
    """R-14: they outlived an ordered stop, for as long as they liked."""
    await lone.add("fork")
    async with lone.start("--grace", "5s") as workers:
        _, copy, other, child = map(_number, await workers.line())
        assert is_there(copy)
        assert is_there(other)
        match end:
            case "stop":
                workers.signal(signal.SIGTERM)
                assert await workers.ended() == 0
            case "replace":
                workers.signal(signal.SIGHUP)
            case "kill":
                os.kill(child, signal.SIGKILL)
            case "orphan":
                workers.signal(signal.SIGKILL)
        for pid in (copy, other, child):
            await patiently(partial(_is_gone, pid))


def _number(word: str) -> int:
    return int(word) if word.isdigit() else 0


def _is_gone(pid: int) -> bool:
    return not is_there(pid)


async def test_children_whose_supervisor_was_killed_finish_and_leave(
    shift: Shift,
) -> None:
    go_on = shift.folder / "go-on"
    ids = await shift.add("nap", until=go_on, count=2)
    async with shift.start("--processes", "2", "--concurrency", "1") as workers:
        started = [await workers.line() for _ in ids]
        children = workers.children()
        workers.signal(signal.SIGKILL)
        more = await shift.add("nap")
        # Time itself is awaited: what the supervisor renewed last is to run out.
        await asyncio.sleep(1.5 * LEASE_SECONDS)
        go_on.touch()
        said = await workers.lines()
        await patiently(lambda: not any(map(is_there, children)))

    pids = sorted(int(pid) for _, _, pid in started)
    assert pids == sorted(children)
    assert sorted(said) == sorted(["returned", job, pid] for _, job, pid in started)
    assert await count_of(shift.store, "nap") == {
        State.COMPLETE: len(ids),
        State.WAITING: len(more),
    }
    # Longer than their lease, and still theirs: they renew it themselves now.
    assert [await shift.outcomes(job_id) for job_id in ids] == [["complete"]] * 2
