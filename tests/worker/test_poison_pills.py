"""R-12: jobs that lost two workers run alone in their process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from kue import ActiveJob, Kue, State
from kue.aio.retry import LONGEST_PAUSE
from kue.model.job import Error, Released, Stalled
from kue.store.contract import Store
from kue.store.values import Claim, ClaimRequest, Outcome
from kue.worker import poison_pills
from tests.support import patience
from tests.support.flaky import Wire
from tests.support.jobs import get_one
from tests.support.patience import PATIENCE_SECONDS

LOST = Error("WorkerLost", "worker w was lost while it ran this job")


async def until(is_so: Callable[[], bool]) -> None:
    await patience.until(is_so)


class Company:
    """Handlers that know who runs beside them, and end when they are let."""

    def __init__(self) -> None:
        self.running: list[int] = []
        self.seen: dict[int, list[int]] = {}
        self.go_on = asyncio.Event()

    async def __call__(self, job: ActiveJob) -> None:
        self.running.append(job.id)
        for one in self.running:
            self.seen[one] = sorted({*self.seen.get(one, []), *self.running})
        await self.go_on.wait()
        self.running.remove(job.id)


@pytest.fixture
def company(q: Kue) -> Company:
    """Handles jobs of type "email"."""
    company = Company()
    q.process("email", 10, company)
    return company


@pytest.fixture
async def suspect(q: Kue, kue_store: Store) -> int:
    """Return the id of a job that lost two workers."""
    return await add_suspect(q, kue_store, stalls=2)


@pytest.fixture
async def other(q: Kue, suspect: int) -> int:
    """Return the id of a job that may run beside others, and was added later."""
    return (await q.enqueue("email")).id


async def add_suspect(q: Kue, store: Store, type: str = "email", *, stalls: int) -> int:
    [job_id] = await add_suspects(q, store, type, stalls=stalls)
    return job_id


async def add_suspects(
    q: Kue, store: Store, type: str = "email", *, stalls: int, count: int = 1
) -> list[int]:
    """Add jobs and have *stalls* workers lost with them, as upkeep writes it down."""
    for _ in range(count):
        await q.enqueue(type)
    return await lose_workers(store, type, stalls=stalls, count=count)


async def lose_workers(
    store: Store, type: str, *, stalls: int, count: int
) -> list[int]:
    for seq in range(stalls):
        claim = Claim(type, seq + 1)
        jobs = (
            await store.claim(ClaimRequest([type], count, worker="w", claim=claim))
        ).jobs
        await store.settle([Outcome(job, Stalled(LOST)) for job in jobs])
    return [job.id for job in jobs]


async def test_a_job_that_lost_two_workers_runs_alone(
    q: Kue, kue_store: Store, company: Company, suspect: int
) -> None:
    others = [(await q.enqueue("email")).id for _ in range(3)]

    async with q.work():
        await until(lambda: set(company.running) == set(others))
        more = [(await q.enqueue("email")).id for _ in range(5)]
        company.go_on.set()
        await until(lambda: set(company.seen) >= {suspect, *others, *more})

    assert company.seen[suspect] == [suspect]
    assert (await get_one(kue_store, suspect)).state is State.COMPLETE


async def test_a_job_that_lost_one_worker_runs_beside_others(
    q: Kue, kue_store: Store, company: Company
) -> None:
    job_id = await add_suspect(q, kue_store, stalls=1)
    other = (await q.enqueue("email")).id

    async with q.work():
        await until(lambda: company.running == [job_id, other])
        company.go_on.set()


async def test_nothing_of_any_type_is_started_beside_it(
    q: Kue, kue_store: Store
) -> None:
    alone, company = Company(), Company()
    q.process("pill", 1, alone)
    q.process("email", 10, company)
    await add_suspect(q, kue_store, "pill", stalls=2)

    async with q.work():
        await until(lambda: bool(alone.running))
        handle = await q.enqueue("email")
        # Upkeep and the watch have looked by then: nobody took it.
        await asyncio.sleep(0.5)
        assert (await get_one(kue_store, handle.id)).state is State.WAITING
        alone.go_on.set()
        company.go_on.set()
        await handle.result(timeout=PATIENCE_SECONDS)

    assert company.seen == {handle.id: [handle.id]}


async def test_several_of_them_run_one_after_the_other(
    q: Kue, kue_store: Store
) -> None:
    company = Company()
    company.go_on.set()
    q.process("email", 10, company)
    q.process("sms", 10, company)
    ids = await add_suspects(q, kue_store, "email", stalls=2, count=4)
    ids += await add_suspects(q, kue_store, "sms", stalls=3, count=2)

    async with q.work(concurrency=8):
        await until(lambda: len(company.seen) == len(ids))

    assert company.seen == {job_id: [job_id] for job_id in ids}


async def test_what_does_not_end_in_time_does_not_keep_it_for_ever(
    q: Kue,
    kue_store: Store,
    monkeypatch: pytest.MonkeyPatch,
    company: Company,
    suspect: int,
    other: int,
) -> None:
    """Or a job that another one waits for would never run."""
    monkeypatch.setattr(poison_pills, "ALONE_SECONDS", 0.1)

    async with q.work():
        await until(lambda: company.running == [other, suspect])
        job = await get_one(kue_store, suspect)
        company.go_on.set()

    assert job.run is not None
    assert job.run.began == "beside"


async def test_one_that_takes_long_gets_company_again(
    q: Kue, monkeypatch: pytest.MonkeyPatch, company: Company, suspect: int
) -> None:
    monkeypatch.setattr(poison_pills, "ALONE_SECONDS", 0.1)

    async with q.work():
        await until(lambda: company.running == [suspect])
        other = (await q.enqueue("email")).id
        await until(lambda: company.running == [suspect, other])
        company.go_on.set()


async def test_one_that_waits_is_handed_back_at_a_stop(
    q: Kue, kue_store: Store, company: Company, suspect: int, other: int
) -> None:
    async with q.work(grace=0.1):
        await until(lambda: company.running == [other])

    job = await get_one(kue_store, suspect)
    assert (job.state, job.stalls, job.attempts) == (State.WAITING, 2, 0)
    assert job.history[-1].reason == "the worker stopped"


async def test_one_that_waits_can_be_cancelled(
    q: Kue, kue_store: Store, company: Company, suspect: int, other: int
) -> None:
    async with q.work():
        await until(lambda: company.running == [other])
        handle = await q.get(suspect)
        await handle.cancel()
        await until_in(State.CANCELLED, kue_store, suspect)
        company.go_on.set()

    assert suspect not in company.seen


async def until_in(state: State, store: Store, job_id: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS), store.watch([job_id]) as events:
        while (await get_one(store, job_id)).state is not state:
            await anext(events)


async def test_one_with_a_short_ttl_begins_before_it_is_over(
    q: Kue, kue_store: Store, company: Company
) -> None:
    """Or it would be handed from worker to worker, and block each of them."""
    await q.enqueue("email", ttl="6s")
    [suspect] = await lose_workers(kue_store, "email", stalls=2, count=1)
    other = (await q.enqueue("email")).id

    async with q.work():
        await until(lambda: company.running == [other, suspect])
        company.go_on.set()


async def test_one_that_is_lost_while_it_waits_blocks_nobody(
    q: Kue,
    kue_store: Store,
    monkeypatch: pytest.MonkeyPatch,
    company: Company,
    suspect: int,
    other: int,
) -> None:
    monkeypatch.setattr(poison_pills, "ALONE_SECONDS", 600)

    async with q.work():
        await until(lambda: company.running == [other])
        taken_back = Outcome(await get_one(kue_store, suspect), Released(3_600_000))
        await kue_store.settle([taken_back])
        another = (await q.enqueue("email")).id
        await until(lambda: company.running == [other, another])
        company.go_on.set()


async def test_one_whose_turn_does_not_come_is_released(
    q: Kue, kue_store: Store, monkeypatch: pytest.MonkeyPatch, company: Company
) -> None:
    monkeypatch.setattr(poison_pills, "ALONE_SECONDS", 600)
    await q.enqueue("email")
    await q.enqueue("email", ttl="6s")
    _, second = await lose_workers(kue_store, "email", stalls=2, count=2)
    other = (await q.enqueue("email")).id

    async with q.work():
        await until(lambda: company.running == [other])
        await until_in(State.WAITING, kue_store, second)
        job = await get_one(kue_store, second)
        company.go_on.set()

    assert (job.stalls, job.attempts) == (2, 0)
    assert job.history[-1].reason == poison_pills.NO_TURN.reason


async def test_one_whose_type_is_paused_meanwhile_is_released(
    q: Kue, kue_store: Store, company: Company, suspect: int, other: int
) -> None:
    async with q.work():
        await until(lambda: company.running == [other])
        await q.pause("email")
        company.go_on.set()
        await until_in(State.WAITING, kue_store, suspect)
        job = await get_one(kue_store, suspect)

    assert (job.stalls, job.attempts) == (2, 0)
    assert job.history[-1].reason == poison_pills.PAUSED.reason
    assert suspect not in company.seen


async def test_a_beginning_that_fails_ends_with_its_worker(
    q: Kue, kue_store: Store, wire: Wire
) -> None:
    q.process("email", 10, Company())
    await add_suspect(q, kue_store, stalls=2)
    wire.break_off("begin")

    async with q.work(grace=0.1):
        await wire.until_answered("begin", 2)

    tries = wire.times("begin")
    # Longer than any pause between two tries.
    await asyncio.sleep(2 * LONGEST_PAUSE)
    assert wire.times("begin") == tries
