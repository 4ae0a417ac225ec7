"""Workers are killed: the failure hook is called once per failure, by those left."""

from __future__ import annotations

import asyncio

from kue.model.draft import draft
from kue.model.job import State
from kue.store.contract import Store
from kue.worker.failure_reporter import TYPE as HOOKS
from tests.faults.processes import Process
from tests.faults.program import PATIENT, TYPE, VICTIM
from tests.support.jobs import add, count_of
from tests.support.patience import PATIENCE_SECONDS, eventually


async def test_the_hook_is_called_once_for_each_job_of_a_killed_worker(
    store: Store, url: str, prefix: str
) -> None:
    lost = await add(store, [draft(TYPE, {"hangs": True}, max_stalls=0)] * 3, now=None)
    async with Process("run_hooks", url, prefix, VICTIM) as victim:
        for _ in lost:
            assert (await victim.line()).startswith("started")
        victim.kill()

    raising = [draft(TYPE, {"hangs": False})] * 6
    raised = await add(store, raising, now=None)
    expected = {f"hook {one.id} WorkerLost" for one in lost}
    expected |= {f"hook {one.id} ValueError" for one in raised}
    said: list[str] = []
    async with (
        Process("run_hooks", url, prefix, PATIENT) as one,
        Process("run_hooks", url, prefix, PATIENT) as other,
        asyncio.timeout(PATIENCE_SECONDS),
    ):

        async def hear(process: Process) -> None:
            while line := await process.line():
                if line.startswith("hook"):
                    said.append(line)

        hearing = [asyncio.create_task(hear(process)) for process in (one, other)]
        await eventually(lambda: is_all_reported(store, len(said), len(expected)))
        one.kill()
        other.kill()
        await asyncio.gather(*hearing)

    assert sorted(said) == sorted(expected)
    assert await count_of(store, TYPE) == {State.FAILED: len(expected)}


async def is_all_reported(store: Store, said: int, wanted: int) -> bool:
    """Return whether every hook was called, and none is left to call."""
    if said < wanted or await store.failures(limit=1):
        return False
    return not await count_of(store, HOOKS)
