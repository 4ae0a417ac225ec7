"""A worker is killed or frozen: its job runs again, and it can do no more harm."""

from __future__ import annotations

import asyncio
import signal

from kue.model.job import Completed, State
from kue.model.retry_policy import runs_alone
from kue.store.contract import Store
from kue.store.values import Claim, ClaimRequest, Outcome, Result
from tests.faults import program_stream
from tests.faults.processes import Process
from tests.faults.program import LEASE_MS, MAX_BATCH, TYPE
from tests.support.jobs import (
    add_many,
    claim,
    claim_one,
    count_of,
    get_many,
    get_one,
    outcomes,
)
from tests.support.patience import eventually


async def until_taken_back(store: Store) -> None:
    """Tend as workers do until a run was taken back from a lost one."""
    while True:
        if (await store.tend(lease=LEASE_MS)).rescued:
            return
        # Time itself is awaited: a lease of the real clock is to run out.
        await asyncio.sleep(0.05)


async def test_the_job_of_a_killed_worker_runs_again(
    store: Store, url: str, prefix: str
) -> None:
    [job_id] = await add_many(store, 1, TYPE, now=None)
    async with Process("hold", url, prefix, "victim") as victim:
        await victim.line()
        victim.kill()

    await until_taken_back(store)
    job = await claim_one(store, TYPE, worker="heir", now=None)
    words = await store.settle([Outcome(job, Completed(None))])

    assert (job.id, words) == (job_id, [Result.DONE])
    after = await get_one(store, job_id)
    assert outcomes(after) == ["stalled", "complete"]
    # A crash is not the job's fault: it spent one attempt, on the run that ended.
    assert (after.attempts, after.stalls) == (1, 1)


async def test_a_worker_that_was_frozen_beyond_its_lease_can_end_nothing(
    store: Store, url: str, prefix: str
) -> None:
    [job_id] = await add_many(store, 1, TYPE, now=None)
    async with Process("hold", url, prefix, "zombie") as zombie:
        await zombie.line()
        zombie.freeze()
        await until_taken_back(store)
        job = await claim_one(store, TYPE, worker="heir", now=None)

        zombie.thaw()
        zombie.tell()
        said = await zombie.line()

    assert said == "lost lost"
    during = await get_one(store, job_id)
    assert (during.state, during.token) == (State.ACTIVE, job.token)
    assert await store.settle([Outcome(job, Completed("heir"))]) == [Result.DONE]
    assert (await get_one(store, job_id)).result == "heir"


async def test_a_worker_that_was_frozen_and_is_back_in_time_loses_nothing(
    store: Store, url: str, prefix: str
) -> None:
    """Its lease is over, but nobody has taken the run back yet: it is still its own."""
    [job_id] = await add_many(store, 1, TYPE, now=None)
    async with Process("hold", url, prefix, "sleeper") as sleeper:
        await sleeper.line()
        sleeper.freeze()
        # Time itself is awaited: a lease of the real clock is to run out.
        await asyncio.sleep(1.5 * LEASE_MS / 1000)
        sleeper.thaw()
        sleeper.tell()
        said = await sleeper.line()

    assert said == "kept done"
    assert (await get_one(store, job_id)).state is State.COMPLETE


async def test_workers_killed_one_after_the_other_fail_the_job_in_the_end(
    store: Store, url: str, prefix: str
) -> None:
    """A job that takes every worker down with it must not go on doing so forever."""
    [job_id] = await add_many(store, 1, TYPE, now=None)
    for number in range(4):
        await claim_when_due(store, f"victim-{number}")
        await store.leave(f"victim-{number}")
        await until_taken_back(store)

    job = await get_one(store, job_id)
    assert job.state is State.FAILED
    assert job.error is not None
    assert job.error.kind == "WorkerLost"


async def test_a_worker_that_is_restarted_under_its_name_requeues_what_it_ran(
    store: Store, url: str, prefix: str
) -> None:
    [job_id] = await add_many(store, 1, program_stream.TYPE, now=None)
    program = program_stream.__name__
    async with Process("7", url, prefix, "mailer", program=program) as killed:
        assert await killed.ended() == -signal.SIGKILL

    async with Process("0", url, prefix, "mailer", program=program):
        await eventually(lambda: is_complete(store, job_id))

    assert outcomes(await get_one(store, job_id)) == ["stalled", "complete"]


async def is_complete(store: Store, job_id: int) -> bool:
    return (await get_one(store, job_id)).state is State.COMPLETE


async def claim_when_due(store: Store, worker: str) -> None:
    while not (jobs := await claim(store, TYPE, limit=1, worker=worker, now=None)):
        await store.wait([TYPE], 5)
    if runs_alone(jobs[0]):
        await store.begin(jobs[0], alone=True)


async def test_two_processes_run_each_job_once(
    store: Store, url: str, prefix: str
) -> None:
    ids = await add_many(store, 300, TYPE, now=None)

    async with (
        Process("work", url, prefix, "one") as one,
        Process("work", url, prefix, "two") as two,
    ):
        lines = [line.split() for line in await one.rest() + await two.rest()]

    started = sorted(int(line[1]) for line in lines if line[0] == "started")
    ended = sorted(int(line[1]) for line in lines if line[0] == "ended")
    assert (started, ended) == (ids, ids)
    assert {line[2] for line in lines if line[0] == "ended"} == {"done"}
    assert await count_of(store, TYPE) == {State.COMPLETE: 300}


async def test_producers_and_workers_that_are_killed_lose_and_repeat_nothing(
    store: Store, url: str, prefix: str
) -> None:
    kills = 3
    acknowledged: list[int] = []
    ended: list[tuple[int, str]] = []
    for number in range(kills):
        async with (
            Process("add", url, prefix, f"p{number}") as producer,
            Process("work", url, prefix, f"w{number}") as worker,
        ):
            for _ in range(20 + 15 * number):
                acknowledged += map(int, (await producer.line()).split())
            producer.kill()
            worker.kill()
            acknowledged += ids_in(await producer.rest())
            ended += endings_in(await worker.rest())
        await store.leave(f"w{number}")
        await until_quiet(store)
    ended += [(job_id, "done") for job_id in await drain(store)]

    counts = await count_of(store, TYPE)
    assert counts.keys() == {State.COMPLETE}
    # The last batches may have been stored without their answer having arrived: one
    # on its way, and one whose line was cut short.
    unanswered = counts[State.COMPLETE] - len(acknowledged)
    assert 0 <= unanswered <= kills * 2 * MAX_BATCH
    done = [job_id for job_id, word in ended if word == "done"]
    assert len(done) == len(set(done))
    for job in await get_many(store, acknowledged):
        assert outcomes(job).count("complete") == 1


def ids_in(lines: list[str]) -> list[int]:
    """Read the ids a producer said; its last line may have been cut short."""
    return [int(word) for line in lines[:-1] for word in line.split()]


def endings_in(lines: list[str]) -> list[tuple[int, str]]:
    words = [line.split() for line in lines]
    return [(int(w[1]), w[2]) for w in words if len(w) == 3 and w[0] == "ended"]


async def until_quiet(store: Store) -> None:
    """Tend until nobody runs anything any more."""
    while State.ACTIVE in await count_of(store, TYPE):
        await store.tend()


async def drain(store: Store) -> list[int]:
    """Run all there is; return the ids of what was completed."""
    ids: list[int] = []
    for seq in range(1, 10_000):
        claim = Claim("drain", seq)
        claimed = await store.claim(
            ClaimRequest([TYPE], 500, worker="drain", claim=claim)
        )
        if not claimed.jobs:
            if claimed.next_at is None:
                return ids
            await store.wait([TYPE], 5)
        outcomes = [Outcome(job, Completed(None)) for job in claimed.jobs]
        assert set(await store.settle(outcomes)) <= {Result.DONE}
        ids += [job.id for job in claimed.jobs]
    raise AssertionError("it never ends")
