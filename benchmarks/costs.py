"""
CPU time per job, of this process and of Redis, through `kue.Kue`.

``python -m benchmarks.costs URL JOBS`` prints one JSON object: µs by figure.  It uses
only what earlier revisions of Kue have as well, so that `benchmarks.against` can run it
with either.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING

import msgspec
import uvloop
from redis import Redis

import kue
from benchmarks.readings import stopwatch
from benchmarks.through_kue import SLOTS, TOGETHER, TYPE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: One after the other takes longer: a share of the jobs will do.
ALONE_SHARE = 10


async def add_bulk(queue: kue.Kue, jobs: int) -> None:
    await queue.enqueue_many(TYPE, ({"i": i} for i in range(jobs)))


async def work(queue: kue.Kue, jobs: int) -> None:
    """Run what `add_bulk` has added."""
    left, all_ran = jobs, asyncio.Event()

    @queue.process(TYPE, SLOTS)
    async def handle(job: kue.ActiveJob) -> None:
        nonlocal left
        left -= 1
        if not left:
            all_ran.set()

    async with queue.work():
        await all_ran.wait()


async def add_one(queue: kue.Kue, jobs: int) -> None:
    for i in range(jobs):
        await queue.enqueue(TYPE, {"i": i})


async def add_gather(queue: kue.Kue, jobs: int) -> None:
    for _ in range(jobs // TOGETHER):
        await asyncio.gather(*(queue.enqueue(TYPE, {"i": i}) for i in range(TOGETHER)))


async def work_one(queue: kue.Kue, jobs: int) -> None:
    """Add a job when the one before has run, so that each has calls of its own."""
    ran = asyncio.Event()

    @queue.process(f"{TYPE}-one")
    async def handle(job: kue.ActiveJob) -> None:
        ran.set()

    async with queue.work():
        for i in range(jobs):
            ran.clear()
            await queue.enqueue(f"{TYPE}-one", {"i": i})
            await ran.wait()


#: In this order: each finds what those before it have left.
CASES: tuple[tuple[Callable[[kue.Kue, int], Awaitable[None]], int], ...] = (
    (add_bulk, 1),
    (work, 1),
    (add_gather, 1),
    (add_one, ALONE_SHARE),
    (work_one, ALONE_SHARE),
)


class Meter:
    """The CPU time that this process and its Redis have taken so far, in µs."""

    def __init__(self, url: str) -> None:
        self._redis = Redis.from_url(url) if url.startswith("redis:") else None

    def read(self) -> dict[str, float]:
        taken = {"cpu": time.process_time() * 1e6}
        if self._redis is not None:
            info = self._redis.info("cpu")
            assert isinstance(info, dict)
            server = (
                info["used_cpu_user_main_thread"] + info["used_cpu_sys_main_thread"]
            )
            taken["redis"] = server * 1e6
        return taken


async def measure(url: str, jobs: int) -> dict[str, float]:
    """Return µs per job, by case and what took them."""
    meter, found = Meter(url), dict[str, float]()
    for run, share in CASES:
        # A new queue: handlers of the case before must not run its jobs.
        async with kue.Kue(url) as queue:
            await queue.open()
            number = jobs // share
            before = meter.read()
            with stopwatch() as watch:
                await run(queue, number)
            after = meter.read()
        for name, taken in after.items():
            found[f"{run.__name__} {name}"] = (taken - before[name]) / number
        found[f"{run.__name__} wall"] = watch.seconds * 1e6 / number
    return found


if __name__ == "__main__":
    _, url, jobs = sys.argv
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(measure(url, int(jobs)))
    sys.stdout.buffer.write(msgspec.json.encode(figures))
