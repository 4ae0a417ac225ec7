"""Worker processes are killed, frozen and asked to end, in the middle of their jobs."""

from __future__ import annotations

from kue.model.draft import draft
from kue.model.job import State
from kue.store.contract import Store
from tests.faults.processes import Process
from tests.faults.program import PATIENT, TYPE, VICTIM
from tests.support.jobs import add as add_drafts
from tests.support.jobs import count_of, get_many, get_one, outcomes, until_ended


async def add(store: Store, count: int, seconds: float) -> list[int]:
    drafts = [draft(TYPE, {"seconds": seconds})] * count
    return [one.id for one in await add_drafts(store, drafts, now=None)]


async def test_the_jobs_of_a_killed_worker_run_again(
    store: Store, url: str, prefix: str
) -> None:
    ids = await add(store, 5, seconds=60)
    async with Process("run", url, prefix, VICTIM) as victim:
        started = [await victim.line() for _ in ids]
        async with Process("run", url, prefix, PATIENT) as heir:
            victim.kill()
            again = [await heir.line() for _ in ids]

    # It is the same attempt again: the crash was not the jobs' fault.
    assert sorted(started) == [f"started {job_id} 1" for job_id in ids]
    assert sorted(again) == sorted(started)


async def test_a_worker_that_was_frozen_beyond_its_lease_changes_nothing(
    store: Store, url: str, prefix: str
) -> None:
    """R-18: it wakes up while another runs its job, and what it reports is rejected."""
    [job_id] = await add(store, 1, seconds=5)
    async with Process("run", url, prefix, VICTIM) as zombie:
        await zombie.line()
        zombie.freeze()
        async with Process("run", url, prefix, PATIENT) as heir:
            assert await heir.line() == f"started {job_id} 1"
            running = await get_one(store, job_id)

            zombie.thaw()
            job = await until_ended(store, job_id)

    assert job.result == running.fence
    # On a busy machine the first may have lost its short lease before.
    *lost, last = outcomes(job)
    assert (set(lost), last) == ({"stalled"}, "complete")


async def test_a_worker_asked_to_end_finishes_what_it_runs_and_takes_no_more(
    store: Store, url: str, prefix: str
) -> None:
    ids = await add(store, 5, seconds=0.5)
    lines: list[str] = []
    async with Process("run", url, prefix, PATIENT) as worker:
        # On a busy machine the first may return before the last has started.
        while sum("started" in line for line in lines) < len(ids):
            lines.append(await worker.line())
        worker.terminate()
        more = await add(store, 3, seconds=0)
        lines += await worker.rest()
        status = await worker.ended()

    assert sorted(lines) == sorted(
        line for job_id in ids for line in (f"started {job_id} 1", f"returned {job_id}")
    )
    assert status == 0
    assert await count_of(store, TYPE) == {
        State.COMPLETE: len(ids),
        State.WAITING: len(more),
    }


async def test_workers_that_keep_being_killed_still_run_every_job(
    store: Store, url: str, prefix: str
) -> None:
    ids = await add(store, 60, seconds=0.02)
    for _ in range(3):
        async with Process("run", url, prefix, VICTIM) as victim:
            for _ in range(15):
                await victim.line()
            victim.kill()

    async with Process("run", url, prefix, PATIENT):
        for job_id in ids:
            await until_ended(store, job_id)

    for job in await get_many(store, ids):
        assert outcomes(job).count("complete") == 1
    assert await count_of(store, TYPE) == {State.COMPLETE: len(ids)}
