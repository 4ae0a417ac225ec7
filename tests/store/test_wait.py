"""
`Store.wait`: no wake-up is lost.

Waiting is done in real time, by the engine's own clock.  Each test behaves as a worker
does (ask, and wait when there is nothing) and would sleep for longer than a test waits
if it were not woken.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kue.model.draft import draft
from kue.model.job import Completed, Job, State
from kue.store.contract import Store
from kue.store.values import (
    Claim,
    ClaimRequest,
    Limits,
    MoveRequest,
    Outcome,
    PauseRequest,
    RemoveRequest,
)
from tests.support.jobs import state_of
from tests.support.patience import PATIENCE_SECONDS

SLEEP_SECONDS = 10 * PATIENCE_SECONDS


class Waiter:
    """A worker that asks for one job, and sleeps until there is one."""

    def __init__(self, store: Store, *types: str, name: str = "w1") -> None:
        self._store = store
        self._types = types or ("email",)
        self._name = name
        self._seq = 0
        #: Set each time the worker has found nothing and goes to sleep.
        self.idle = asyncio.Event()

    async def take(self) -> Job:
        """Return the first job there is; fails when nothing woke it in time."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                self._seq += 1
                claimed = await self._store.claim(
                    ClaimRequest(
                        self._types,
                        1,
                        worker=self._name,
                        claim=Claim(self._name, self._seq),
                    )
                )
                if claimed.jobs:
                    return claimed.jobs[0]
                self.idle.set()
                await self._store.wait(self._types, SLEEP_SECONDS)


@asynccontextmanager
async def asleep(waiter: Waiter) -> AsyncIterator[asyncio.Task[Job]]:
    """Let a worker go to sleep; it has a job at the end."""
    async with asyncio.TaskGroup() as tasks:
        taken = tasks.create_task(waiter.take())
        await waiter.idle.wait()
        yield taken


async def add_now(store: Store, type: str = "email", **options: Any) -> int:
    producer = f"{time.monotonic_ns()}"
    [added] = await store.add([draft(type, **options)], producer=producer, seq=1)
    return added.id


async def due_at(store: Store, job_id: int) -> int:
    [job] = await store.get([job_id])
    assert job is not None
    assert job.promote_at is not None
    return job.promote_at


async def napping(store: Store, types: Sequence[str]) -> asyncio.Task[frozenset[str]]:
    """Let someone go to sleep; whether it sleeps yet makes no difference to it."""

    async def nap() -> frozenset[str]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await store.wait(types, SLEEP_SECONDS)

    sleeper = asyncio.create_task(nap())
    await store.now()
    return sleeper


async def finish(store: Store, job: Job) -> None:
    await store.settle([Outcome(job, Completed())])


async def test_a_job_that_is_there_already_is_not_waited_for(store: Store) -> None:
    job_id = await add_now(store)

    async with asyncio.timeout(PATIENCE_SECONDS):
        await store.wait(["email"], SLEEP_SECONDS)

    assert (await Waiter(store).take()).id == job_id


async def test_with_nothing_to_do_the_wait_ends_in_time(store: Store) -> None:
    await store.claim(ClaimRequest(["email"], 1, worker="w1", claim=Claim("lane", 1)))

    async with asyncio.timeout(PATIENCE_SECONDS):
        woken = await store.wait(["email"], 0.05)

    assert woken == frozenset()


async def test_a_wait_for_nothing_names_nothing(store: Store) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await store.wait([], 0.01) == frozenset()


async def test_a_wait_without_time_still_looks(store: Store) -> None:
    await add_now(store)

    assert await store.wait(["email"], 0) == {"email"}


async def test_an_added_job_wakes_a_waiter(store: Store) -> None:
    async with asleep(Waiter(store)) as taken:
        job_id = await add_now(store)

    assert taken.result().id == job_id


async def test_a_job_added_elsewhere_wakes_a_waiter(
    store: Store, other_store: Store
) -> None:
    async with asleep(Waiter(store)) as taken:
        job_id = await add_now(other_store)

    assert taken.result().id == job_id


TYPES = ("email", "sms", "video", "report")


@pytest.mark.parametrize("type", TYPES)
async def test_a_waiter_for_many_types_wakes_for_each(store: Store, type: str) -> None:
    async with asleep(Waiter(store, *TYPES)) as taken:
        job_id = await add_now(store, type)

    assert taken.result().id == job_id


@pytest.mark.parametrize("type", TYPES)
async def test_a_waiter_for_many_types_is_told_which_has_work(
    store: Store, type: str
) -> None:
    """Of work that is there already; nothing is said of types that have none."""
    await add_now(store, type)

    async with asyncio.timeout(PATIENCE_SECONDS):
        woken = await store.wait(TYPES, SLEEP_SECONDS)

    assert woken == {type}


async def test_every_type_with_work_is_named_in_the_end(store: Store) -> None:
    """Of several shards the first that answers is heard; the next call hears more."""
    for type in ("email", "sms"):
        await add_now(store, type)
    found: set[str] = set()

    async with asyncio.timeout(PATIENCE_SECONDS):
        while found < {"email", "sms"}:
            rest = [type for type in TYPES if type not in found]
            found |= await store.wait(rest, SLEEP_SECONDS)

    assert found == {"email", "sms"}


@pytest.mark.parametrize("type", TYPES)
async def test_a_sleeper_is_told_which_type_woke_it(store: Store, type: str) -> None:
    sleeper = await napping(store, TYPES)

    await add_now(store, type)

    assert await sleeper == {type}


async def test_a_sleeper_is_told_which_type_was_added_elsewhere(
    store: Store, other_store: Store
) -> None:
    sleeper = await napping(store, TYPES)

    await add_now(other_store, "sms")

    assert await sleeper == {"sms"}


async def test_a_sleeper_is_told_which_type_is_due(store: Store) -> None:
    """What a new delayed job leaves to wake someone with may name its type early."""
    await add_now(store, "sms", delay=3600)
    job_id = await add_now(store, "video", delay=0.5)
    woken: frozenset[str] = frozenset()

    async with asyncio.timeout(PATIENCE_SECONDS):
        while await store.now() < await due_at(store, job_id):
            woken = await store.wait(TYPES, SLEEP_SECONDS)

    assert woken == {"video"}


async def test_a_pause_of_everything_that_is_lifted_names_what_has_work(
    store: Store,
) -> None:
    await store.pause(PauseRequest())
    await add_now(store, "sms")
    sleeper = await napping(store, ["sms"])

    await store.resume()

    assert await sleeper == {"sms"}


async def test_a_delayed_job_wakes_a_waiter_when_it_is_due(store: Store) -> None:
    """D-38: at once, not at the next tick of someone's timer; and never early."""
    job_id = await add_now(store, delay=0.3)

    job = await Waiter(store).take()

    assert job.id == job_id
    assert job.started_at is not None
    assert job.started_at >= job.created_at + 300


async def test_a_delayed_job_added_meanwhile_wakes_a_waiter(store: Store) -> None:
    """It is due long before what the waiter knew of when it went to sleep."""
    await add_now(store, delay=3600)
    async with asleep(Waiter(store)) as taken:
        job_id = await add_now(store, delay=0.2)

    assert taken.result().id == job_id


@pytest.mark.parametrize("paused", ["email", None], ids=["one type", "all types"])
async def test_a_lifted_pause_wakes_a_waiter(store: Store, paused: str | None) -> None:
    await store.pause(PauseRequest(paused))
    job_id = await add_now(store)
    async with asleep(Waiter(store)) as taken:
        await store.resume(paused)

    assert taken.result().id == job_id


async def test_a_slot_that_is_freed_wakes_a_waiter(store: Store) -> None:
    await store.limit("email", Limits(concurrency=1))
    await add_now(store)
    running = await Waiter(store, name="w0").take()
    job_id = await add_now(store)
    async with asleep(Waiter(store)) as taken:
        await finish(store, running)

    assert taken.result().id == job_id


async def test_a_group_that_is_freed_wakes_a_waiter(store: Store) -> None:
    await store.limit("email", Limits(per_key=1))
    await add_now(store, group="a")
    running = await Waiter(store, name="w0").take()
    job_id = await add_now(store, group="a")
    async with asleep(Waiter(store)) as taken:
        await finish(store, running)

    assert taken.result().id == job_id


async def test_a_limit_that_is_lifted_wakes_a_waiter(store: Store) -> None:
    await store.limit("email", Limits(concurrency=1))
    await add_now(store)
    await Waiter(store, name="w0").take()
    job_id = await add_now(store)
    async with asleep(Waiter(store)) as taken:
        await store.limit("email", None)

    assert taken.result().id == job_id


async def test_a_rate_that_allows_the_next_run_wakes_a_waiter(store: Store) -> None:
    await store.limit("email", Limits(rate=1, per=300))
    await add_now(store)
    await Waiter(store, name="w0").take()
    job_id = await add_now(store)

    assert (await Waiter(store).take()).id == job_id


async def test_a_released_dependant_wakes_a_waiter(store: Store) -> None:
    await add_now(store, "parent")
    parent = await Waiter(store, "parent", name="w0").take()
    job_id = await add_now(store, after=[parent.id])
    async with asleep(Waiter(store)) as taken:
        await finish(store, parent)
        while await store.tend(now=await store.now()):
            pass

    assert taken.result().id == job_id


async def test_a_job_put_back_in_line_wakes_a_waiter(store: Store) -> None:
    job_id = await add_now(store)
    await store.cancel([job_id])
    async with asleep(Waiter(store)) as taken:
        await store.move(MoveRequest([job_id], State.WAITING))

    assert taken.result().id == job_id


async def test_a_job_taken_back_from_a_lost_worker_wakes_a_waiter(store: Store) -> None:
    job_id = await add_now(store)
    await Waiter(store, name="lost").take()
    async with asleep(Waiter(store)) as taken:
        await store.leave("lost")
        while await store.tend(now=await store.now()):
            pass

    assert taken.result().id == job_id


async def test_many_waiters_get_a_job_each(store: Store) -> None:
    """D-1: waking is a hint; what counts is what is in line."""
    waiters = [Waiter(store, name=f"w{number}") for number in range(5)]
    async with asyncio.TaskGroup() as tasks:
        taken = [tasks.create_task(waiter.take()) for waiter in waiters]
        for waiter in waiters:
            await waiter.idle.wait()
        ids = [await add_now(store) for _ in waiters]

    assert sorted(task.result().id for task in taken) == sorted(ids)


async def test_jobs_added_in_one_call_wake_as_many_waiters(store: Store) -> None:
    waiters = [Waiter(store, name=f"w{number}") for number in range(4)]
    async with asyncio.TaskGroup() as tasks:
        taken = [tasks.create_task(waiter.take()) for waiter in waiters]
        for waiter in waiters:
            await waiter.idle.wait()
        added = await store.add([draft("email")] * 4, producer="p", seq=1)

    assert {task.result().id for task in taken} == {answer.id for answer in added}


async def test_a_waiter_that_gives_up_takes_no_wake_up_with_it(store: Store) -> None:
    """D-41: it was cancelled or its connection broke; the next one sees the job."""
    waiter = Waiter(store)
    task = asyncio.create_task(waiter.take())
    await waiter.idle.wait()
    task.cancel()
    done, _ = await asyncio.wait([task], timeout=PATIENCE_SECONDS / 2)
    assert done == {task}
    assert task.cancelled()

    job_id = await add_now(store)

    assert (await Waiter(store, name="w2").take()).id == job_id
    assert await state_of(store, job_id) is State.ACTIVE


async def test_one_look_sees_the_work_of_every_type(store: Store) -> None:
    """Whichever shard answers first: nothing may be known there yet."""
    types = [f"type-{number}" for number in range(12)]
    for type in types:
        job_id = await add_now(store, type)

        assert type in await store.wait(types, 0)

        await store.remove(RemoveRequest([job_id]))
