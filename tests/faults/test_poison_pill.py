"""R-12: a job that kills its process fails, and those beside it complete."""

from __future__ import annotations

import asyncio

import pytest

from kue.model.job import State
from kue.model.retry_policy import ALONE_STALLS, MAX_STALLS
from tests.faults.supervised import Shift

APP = """
import asyncio, os, signal
import kue

q = kue.Kue()

@q.process("pill", 2)
async def pill(job):
    await asyncio.sleep(0.2)  # lets others start beside it
    os.kill(os.getpid(), signal.SIGKILL)

@q.process("innocent", 10)
async def innocent(job):
    await asyncio.sleep(0.5)  # is there when the pill works
"""
INNOCENTS = 20
#: Four losses with pauses between them, on a busy machine.
PATIENCE_SECONDS = 300


@pytest.mark.parametrize("processes", [1, 2])
async def test_the_innocents_beside_a_poison_pill_complete(
    shift: Shift, processes: int
) -> None:
    (shift.folder / "pills.py").write_text(APP)
    [pill] = await shift.add("pill")
    innocents = await shift.add("innocent", count=INNOCENTS)

    options = ("--concurrency", "10", "--processes", str(processes))
    # Long, for a busy machine: the supervisor reports a dead child without it.
    lease = {"KUE_LEASE": "30s"}
    async with shift.start(*options, target="pills.py", environ=lease):
        async with asyncio.timeout(PATIENCE_SECONDS):
            ended = [await shift.ended(job_id) for job_id in (pill, *innocents)]

    assert (ended[0].state, ended[0].stalls) == (State.FAILED, MAX_STALLS)
    assert {job.state for job in ended[1:]} == {State.COMPLETE}
    # From the second loss on it was alone, and took nobody down with it.
    assert max(job.stalls for job in ended[1:]) <= ALONE_STALLS
