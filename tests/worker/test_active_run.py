"""Runs claimed together: one task where that is enough, and nobody notices."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from kue.worker.active_run import ClaimedRuns
from tests.support.patience import PATIENCE_SECONDS

USER: ContextVar[str] = ContextVar("user", default="nobody")


async def relay(count: int, run_one: Callable[[int], Awaitable[None]]) -> list[object]:
    """Run *count* numbers; return the task that each ran in."""
    tasks: list[object] = []
    ended = asyncio.Semaphore(0)

    async def one(number: int) -> None:
        tasks.append(asyncio.current_task())
        try:
            await run_one(number)
        finally:
            ended.release()

    ClaimedRuns(range(count), one).start()
    async with asyncio.timeout(PATIENCE_SECONDS):
        for _ in range(count):
            await ended.acquire()
    return tasks


async def test_runs_that_wait_for_nothing_share_a_task() -> None:
    async def quick(number: int) -> None: ...

    assert len(set(await relay(50, quick))) == 1


async def test_runs_that_wait_wait_together() -> None:
    everybody = asyncio.Barrier(20)

    async def slow(number: int) -> None:
        await everybody.wait()

    assert len(set(await relay(20, slow))) == 20


async def test_quick_runs_are_not_held_up_by_a_slow_one_before_them() -> None:
    ended: list[int] = []

    async def run_one(number: int) -> None:
        if number == 3:
            await asyncio.wait_for(others.wait(), 50)
        ended.append(number)
        if len(ended) == 9:
            others.set()

    others = asyncio.Event()
    await relay(10, run_one)

    assert sorted(ended) == list(range(10))
    assert ended[-1] == 3


async def test_what_a_run_puts_into_its_context_is_not_seen_by_the_next() -> None:
    seen: list[str] = []

    async def run_one(number: int) -> None:
        seen.append(USER.get())
        USER.set(f"user {number}")

    await relay(5, run_one)

    assert seen == ["nobody"] * 5


async def test_a_run_that_cancels_its_own_task_cancels_no_other() -> None:
    ended: list[int] = []

    async def run_one(number: int) -> None:
        if number == 2:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            return
        await asyncio.sleep(0)
        ended.append(number)

    await relay(5, run_one)

    assert sorted(ended) == [0, 1, 3, 4]


async def test_a_run_that_raises_takes_no_other_with_it() -> None:
    # Told of when the task is forgotten, which is now or later.
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    ended: list[int] = []

    async def run_one(number: int) -> None:
        if number == 1:
            raise RuntimeError("a fault of the worker's own")
        ended.append(number)

    await relay(4, run_one)

    assert ended == [0, 2, 3]
