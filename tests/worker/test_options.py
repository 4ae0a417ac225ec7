"""How a worker is to work: which types, how many at once, until when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kue import ActiveJob, ConfigError, Kue, State
from kue.client.hooks import CallNext
from kue.store.contract import Store
from kue.worker import Worker
from tests.support.flaky import Wire
from tests.support.patience import PATIENCE_SECONDS, eventually, until


async def echo(job: ActiveJob) -> Any:
    return job.data


# -- until when --------------------------------------------------------------


async def test_a_burst_ends_when_nothing_is_left_to_do(q: Kue) -> None:
    q.process("email", 5, echo)
    q.process("sms", 5, echo)
    await q.enqueue_many("email", range(50))
    await q.enqueue_many("sms", range(50))
    later = await q.enqueue("email", delay="1h")

    await q.run(burst=True, signals=False)

    assert await q.count(state="complete") == 100
    assert (await later.refresh()).state is State.DELAYED


async def test_a_burst_waits_for_what_a_limit_holds_back(q: Kue) -> None:
    q.process("email", 5, echo)
    await q.limit("email", rate=5, per=0.2)
    await q.enqueue_many("email", range(8))

    await q.run(burst=True, signals=False)

    assert await q.count(state="complete") == 8


async def test_a_burst_runs_jobs_that_jobs_add(q: Kue) -> None:
    @q.task
    async def countdown(n: int) -> None:
        if n:
            await countdown.enqueue(n - 1)

    await countdown.enqueue(5)
    await q.run(burst=True, signals=False)

    assert await q.count(state="complete") == 6


async def test_a_burst_runs_what_a_job_adds_that_was_claimed_while_it_counted(
    q: Kue, kue_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_counted = asyncio.Event()
    count = kue_store.count

    @q.task
    async def first() -> None:
        await is_counted.wait()
        await second.enqueue()

    @q.task
    async def second() -> None: ...

    async def is_claimed() -> bool:
        return (await count())["first"][State.ACTIVE] == 1

    async def claimed_and_counted() -> Any:
        if not is_counted.is_set():
            await first.enqueue()
            await eventually(is_claimed)
        counts = await count()
        is_counted.set()
        return counts

    monkeypatch.setattr(kue_store, "count", claimed_and_counted)

    await q.run(burst=True, signals=False)

    assert await q.count(state="complete") == 2


async def test_a_burst_leaves_paused_types_alone(q: Kue) -> None:
    q.process("email", 5, echo)
    await q.enqueue("email")
    await q.pause("email")

    await q.run(burst=True, signals=False)

    assert await q.count(state="waiting") == 1


async def test_a_worker_stops_after_as_many_runs_as_it_was_told(q: Kue) -> None:
    q.process("email", 4, echo)
    q.process("sms", 4, echo)
    await q.enqueue_many("email", range(20))
    await q.enqueue_many("sms", range(20))

    await q.run(max_jobs=7, signals=False)

    assert await q.count(state="complete") == 7
    assert await q.count(state="waiting") == 33


async def test_a_program_runs_the_types_it_names_with_its_middleware_and_hooks(
    q: Kue,
) -> None:
    story: list[str] = []
    running: list[int] = []

    @q.middleware
    async def note(job: ActiveJob, call_next: CallNext) -> Any:
        story.append(job.type)
        return await call_next(job)

    async def alone(job: ActiveJob) -> None:
        running.append(job.id)
        # Long enough for another to begin.
        await asyncio.sleep(0.01)
        assert running.pop() == job.id
        assert running == []

    q.on_startup(lambda: story.append("startup"))
    q.on_shutdown(lambda: story.append("shutdown"))
    q.process("email", 4, alone)
    q.process("sms", echo)
    await q.enqueue_many("email", range(3))
    await q.enqueue("sms")

    program = q.run(types=["email"], concurrency=1, burst=True, signals=False)
    await asyncio.wait_for(program, PATIENCE_SECONDS)

    assert story == ["startup", "email", "email", "email", "shutdown"]
    assert await q.counts("email") == dict.fromkeys(State, 0) | {State.COMPLETE: 3}
    assert await q.count("waiting", "sms") == 1


# -- which, and how many -----------------------------------------------------


async def test_a_worker_takes_only_the_types_it_was_told(q: Kue) -> None:
    q.process("email", echo)
    q.process("sms", echo)
    await q.enqueue("email")
    await q.enqueue("sms")

    await q.run(types=["sms"], burst=True, signals=False)

    assert await q.count("complete", "sms") == 1
    assert await q.count("waiting", "email") == 1


async def test_a_type_without_a_handler_is_refused(q: Kue) -> None:
    q.process("email", echo)

    with pytest.raises(
        ConfigError, match="no handler for type 'fax'; there are: email"
    ):
        await q.run(types=["fax"])


class Gauge:
    """Counts how many run at once, by type."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.now: dict[str, int] = {}

    async def __call__(self, job: ActiveJob) -> None:
        self.now[job.type] = self.now.get(job.type, 0) + 1
        await self.release.wait()

    @property
    def total(self) -> int:
        return sum(self.now.values())


async def test_types_share_the_slots_of_a_worker_fairly(q: Kue) -> None:
    """The flood of one type leaves the other its share."""
    gauge = Gauge()
    q.process("flood", 100, gauge)
    q.process("trickle", 100, gauge)
    await q.enqueue_many("flood", range(100))
    await q.enqueue_many("trickle", range(20))

    async with q.work(concurrency=10):
        await until(lambda: gauge.total >= 10)
        gauge.release.set()
        assert gauge.now == {"flood": 5, "trickle": 5}


async def test_slots_that_one_type_leaves_are_used_by_another(q: Kue) -> None:
    gauge = Gauge()
    q.process("flood", 100, gauge)
    q.process("trickle", 100, gauge)
    await q.enqueue_many("flood", range(100))

    async with q.work(concurrency=10):
        await until(lambda: gauge.total >= 10)
        gauge.release.set()
        assert gauge.now == {"flood": 10}


@pytest.mark.parametrize("concurrency", [4, None])
async def test_in_strict_order_the_first_type_comes_first(
    q: Kue, concurrency: int | None
) -> None:
    order: list[str] = []

    async def note(job: ActiveJob) -> None:
        order.append(job.type)

    q.process("low", 4, note)
    q.process("high", 4, note)
    await q.enqueue_many("low", range(20))
    await q.enqueue_many("high", range(20))

    await q.run(
        types=["high", "low"],
        concurrency=concurrency,
        strict=True,
        burst=True,
        signals=False,
    )

    assert order[:16] == ["high"] * 16


async def test_a_worker_reports_its_slots_before_it_runs_jobs(q: Kue) -> None:
    q.process("email", 4, Gauge())
    seen: list[object] = []

    def note(worker: Worker) -> None:
        seen.append(worker.status()["slots"])

    await q.run(burst=True, signals=False, on_start=note)

    assert seen == [{"email": 4}]


async def test_a_task_has_slots_of_its_own_within_those_of_the_worker(q: Kue) -> None:
    @q.task(concurrency=3)
    async def narrow() -> None: ...

    @q.task
    async def wide() -> None: ...

    def slots(worker: Worker) -> dict[str, int]:
        return {item.type: item.slots for item in worker.processors}

    async with q.work() as worker:
        assert slots(worker) == {"narrow": 3, "wide": 100}
    async with q.work(concurrency=20) as worker:
        assert slots(worker) == {"narrow": 3, "wide": 20}


# -- waiting -----------------------------------------------------------------


async def test_an_idle_worker_waits_once_for_all_its_types(q: Kue, wire: Wire) -> None:
    for number in range(20):
        q.process(f"type {number}", echo)

    async with q.work():
        await until(lambda: wire.times("stand_by") > 0)
        job = await q.enqueue("type 7")
        await job.result(timeout=PATIENCE_SECONDS)
        # Calls that began apart end together, and become one.
        await until(lambda: _longest_wait(wire) == 20)

    assert wire.times("stand_by") < 20


def _longest_wait(wire: Wire) -> int:
    return max(len(args[0].types) for name, args, _ in wire.calls if name == "stand_by")


async def test_a_job_of_one_type_wakes_nobody_else(q: Kue, wire: Wire) -> None:
    q.process("email", echo)
    q.process("sms", echo)

    async with q.work():
        # Each has asked once, found nothing, and waits.
        await until(lambda: wire.times("cycle") >= 2 and wire.times("stand_by") > 0)
        before = len(wire.calls)
        job = await q.enqueue("sms")
        await job.result(timeout=PATIENCE_SECONDS)
        asked = {
            args[1].types for name, args, _ in wire.calls[before:] if name == "cycle"
        }

    assert asked == {("sms",)}


# -- pausing a worker --------------------------------------------------------


async def test_a_paused_worker_takes_no_jobs_until_it_is_resumed(
    q: Kue, wire: Wire
) -> None:
    q.process("email", echo)
    async with q.work(name="w1"):
        await q.pause(worker="w1", reason="deploy")
        beats = wire.times("renew")
        await wire.until_answered("renew", beats + 2)
        job = await q.enqueue("email")
        await wire.until_answered("tend", wire.times("tend") + 2)
        assert (await job.refresh()).state is State.WAITING
        assert [status.paused for status in await q.workers()] == [True]

        await q.resume(worker="w1")
        await job.result(timeout=PATIENCE_SECONDS)


async def test_another_worker_takes_the_jobs_of_a_paused_one(
    q: Kue, wire: Wire
) -> None:
    q.process("email", echo)
    await q.pause(worker="w1")
    async with q.work(name="w1"), q.work(name="w2"):
        await wire.until_answered("renew", 2)
        job = await q.enqueue("email")
        await job.result(timeout=PATIENCE_SECONDS)

    assert (await job.refresh()).worker == "w2"


async def test_a_worker_that_is_paused_when_it_starts_takes_no_job(
    q: Kue, wire: Wire
) -> None:
    q.process("email", echo)
    await q.pause(worker="w1")
    job = await q.enqueue("email")

    async with q.work(name="w1"):
        await wire.until_answered("renew", 2)
        await wire.until_answered("tend", 2)

    assert (await job.refresh()).state is State.WAITING
    assert wire.times("cycle") == 0
