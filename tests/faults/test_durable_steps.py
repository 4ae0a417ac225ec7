"""A worker is killed after each step of a job; no step is done twice."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from kue import State
from kue.model.draft import draft
from kue.store.contract import Store
from kue.store.values import MoveRequest
from tests.faults.conftest import NewStore, assert_sound
from tests.faults.processes import Process
from tests.faults.program_durable import STEPS, TYPE
from tests.support.jobs import get_one, outcomes, until_ended
from tests.support.patience import PATIENCE_SECONDS
from tests.support.servers import RedisServer


async def reclaim(store: Store, job_id: int) -> None:
    """Take the job from its dead worker, and let it run again now."""
    worker = (await get_one(store, job_id)).worker
    assert worker is not None
    await store.leave(worker)
    await store.tend(now=await store.now())
    if (await get_one(store, job_id)).state is State.DELAYED:
        await store.move(MoveRequest([job_id], State.WAITING))


@pytest.mark.parametrize("engine", ["sqlite", "redis"])
async def test_a_job_whose_worker_is_killed_after_each_step_does_each_step_once(
    engine: str,
    prefix: str,
    new_store: NewStore,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    # A file has one queue, under the prefix that is the default.
    url, own = f"sqlite:///{tmp_path}/jobs.db", "kue"
    if engine == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        url, own = server.url, prefix
    effects = tmp_path / "effects"
    program = "tests.faults.program_durable"
    store = new_store(url, prefix=own)
    [added] = await store.add([draft(TYPE)], producer="p", seq=1)

    async with asyncio.timeout(PATIENCE_SECONDS):
        for step in STEPS:
            arguments = (step, url, own, str(effects))
            async with Process(*arguments, program=program) as victim:
                assert await victim.ended() == -signal.SIGKILL
            await reclaim(store, added.id)
        async with Process("none", url, own, str(effects), program=program):
            job = await until_ended(store, added.id)

    assert (job.state, job.attempts) == (State.COMPLETE, 1)
    assert outcomes(job) == ["stalled"] * 3 + ["complete"]
    assert job.result == [f"{name} done" for name in STEPS]
    assert effects.read_text().split() == list(STEPS)
    await assert_sound(store)
