"""Measurements through `kue.Kue`, the user's API, with default settings."""

from __future__ import annotations

import asyncio
import time

import kue
from benchmarks.delivery import check_count, check_once
from benchmarks.readings import stopwatch

TYPE = "noop"
#: Jobs awaited at once.
TOGETHER = 100
#: Jobs that a worker runs at once: two cycles of 100.
SLOTS = 200


async def add_one_by_one(url: str, jobs: int) -> float:
    """Enqueue *jobs*, each awaited before the next; return the seconds that took."""
    async with kue.Kue(url) as queue:
        await queue.open()
        added = []
        with stopwatch() as watch:
            for i in range(jobs):
                added.append(await queue.enqueue(TYPE, {"i": i}))
        await _check_added(queue, [job.id for job in added])
    return watch.seconds


async def add_together(url: str, jobs: int) -> float:
    """Enqueue *jobs*, a hundred awaited at once; return the seconds that took."""
    async with kue.Kue(url) as queue:
        await queue.open()
        added = []
        with stopwatch() as watch:
            for start in range(0, jobs, TOGETHER):
                some = range(start, min(start + TOGETHER, jobs))
                added += await asyncio.gather(
                    *(queue.enqueue(TYPE, {"i": i}) for i in some)
                )
        await _check_added(queue, [job.id for job in added])
    return watch.seconds


async def work(url: str, jobs: int) -> float:
    """Run *jobs* with a worker; return the seconds from its start to the last run."""
    async with kue.Kue(url) as queue:
        await queue.enqueue_many(TYPE, ({"i": i} for i in range(jobs)))
        ran: list[int] = []
        all_ran = asyncio.Event()

        @queue.process(TYPE, SLOTS)
        async def handle(job: kue.ActiveJob) -> None:
            ran.append(job.id)
            if len(ran) == jobs:
                all_ran.set()

        with stopwatch() as watch:
            async with queue.work():
                await all_ran.wait()
                seconds = watch.lap()
        check_once(range(1, jobs + 1), ran, "Kue's worker")
        await _check_completed(queue, jobs)
    return seconds


async def _check_added(queue: kue.Kue, ids: list[int]) -> None:
    check_once(range(1, len(ids) + 1), ids, "Kue.enqueue")
    check_count(await queue.inactive_count(TYPE), len(ids), "jobs waiting")


async def _check_completed(queue: kue.Kue, jobs: int) -> None:
    """Count from the statistics: the worker has pruned all but the newest jobs."""
    minute = int(time.time()) // 60
    stats = await queue.stats(minute - 10, minute + 1)
    check_count(sum(stat.complete for stat in stats), jobs, "jobs completed")
    for state in kue.State:
        if state is not kue.State.COMPLETE:
            check_count(await queue.count(state, TYPE), 0, f"{state} jobs left")
