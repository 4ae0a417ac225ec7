"""The supervisor renews the leases of children that cannot, and no others."""

from __future__ import annotations

import asyncio
import os
import signal

from tests.faults.supervised import (
    LEASE_SECONDS,
    Shift,
    is_there,
    patiently,
)
from tests.support.jobs import outcomes
from tests.support.patience import eventually


async def test_a_handler_that_holds_the_interpreter_beyond_its_lease_runs_once(
    shift: Shift,
) -> None:
    """And how late its event loop is can be seen in the meantime."""
    go_on = shift.folder / "go-on"
    os.mkfifo(go_on)
    [job_id] = await shift.add("hold", until=go_on)
    # The other process is idle, tends the store, and would take the job.
    async with shift.start("--processes", "2") as workers:
        started = await workers.line()
        # It has been silent for as long as its lease.
        await workers.logged("has not responded", "its lease is renewed")
        await until_lagging(shift, int(started[2]))
        await asyncio.to_thread(go_on.write_bytes, b"")
        job = await shift.ended(job_id)
        returned = await workers.line()
        await workers.logged("responds again after")

    assert started[:2] == ["started", str(job_id)]
    assert returned == ["returned", str(job_id), started[2]]
    assert outcomes(job) == ["complete"]


async def until_lagging(shift: Shift, pid: int) -> None:
    async def is_lagging() -> bool:
        infos = [worker.info for worker in await shift.store.workers()]
        lags = [info.get("lag_ms", 0) for info in infos if info.get("pid") == pid]
        return any(lag > 1000 * LEASE_SECONDS for lag in lags)

    await eventually(is_lagging)


async def test_the_lease_of_a_frozen_child_ends_and_its_job_is_taken_over(
    shift: Shift,
) -> None:
    [job_id] = await shift.add("nap", seconds=6)
    async with shift.start("--processes", "2") as workers:
        _, _, zombie = await workers.line()
        shift.freeze(int(zombie))
        _, again, heir = await workers.line()

        os.kill(int(zombie), signal.SIGCONT)
        job = await shift.ended(job_id)

    assert (again, heir != zombie) == (str(job_id), True)
    assert job.result == int(heir)
    assert outcomes(job) == ["stalled", "complete"]


async def test_a_child_whose_loop_stands_still_for_too_long_is_killed_with_its_stack(
    shift: Shift,
) -> None:
    [job_id] = await shift.add("hold", seconds=600)
    async with shift.start("--stuck-after", "6s") as workers:
        _, _, stuck = await workers.line()
        logged = await workers.logged("is stuck", f"pid {stuck}")
        where = await workers.logged("shift.py", "in hold")
        _, again, heir = await workers.line()
        await patiently(lambda: not is_there(int(stuck)))

    assert "has been blocked for" in logged
    assert where.startswith("  File")
    assert (again, heir != stuck) == (str(job_id), True)
    assert await shift.outcomes(job_id) == ["stalled"]


async def test_a_queue_in_memory_is_worked_on_without_heartbeats(lone: Shift) -> None:
    """Nobody else can reach its jobs, so nobody else could take them."""
    memory = {"KUE_URL": "memory://"}
    async with lone.start("--burst", environ=memory) as workers:
        await workers.up()
        assert await workers.ended() == 0
