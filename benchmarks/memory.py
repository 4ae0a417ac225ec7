"""
Memory of a worker: does it leak, however many jobs it has run?

Jobs are added in waves.  All at once they would make a file that SQLite gradually keeps
in its page cache, up to 32 MiB: that is not a leak, and would hide one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import kue
from benchmarks.delivery import check_count
from benchmarks.lone_worker import started, type_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.readings import Readings

#: Jobs after which memory is measured.  By the first, caches have their full size.
MARKS = (20_000, 100_000, 200_000)
JOBS = MARKS[-1]
WAVE = 20_000
MEGABYTE = 1_000_000


class MemoryFigures:
    """
    Measures the memory of a worker process on one engine.

    Args:
        engine: What the names of the figures begin with.
        empty: Returns the URL of an empty store.
    """

    def __init__(
        self, engine: str, empty: Callable[[], Awaitable[str]], readings: Readings
    ) -> None:
        self._engine = engine
        self._empty = empty
        self._readings = readings

    async def measure(self) -> None:
        """Measure the memory of a worker while it runs jobs."""
        url = await self._empty()
        sizes = await _measure_memory(url)
        for mark in MARKS:
            name = f"{self._engine}.rss_{mark // 1000}k"
            self._readings.add(name, sizes[mark] / MEGABYTE)
        growth = sizes[JOBS] / sizes[MARKS[0]]
        self._readings.add(f"{self._engine}.rss_growth_200k", growth)


async def _measure_memory(url: str) -> dict[int, int]:
    """Return the memory of a worker after each wave, in bytes."""
    ends = range(WAVE, JOBS + WAVE, WAVE)
    sizes = {}
    async with kue.Kue(url) as queue:
        async with started(url, marks=ends) as worker:
            for end in ends:
                data = ({"i": number} for number in range(end - WAVE, end))
                await queue.enqueue_many(type_of(0), data, attempts=2)
                sizes[end] = int(await worker.read_line())
            await worker.stop()
        await _check(queue)
    return sizes


async def _check(queue: kue.Kue) -> None:
    minute = int(time.time()) // 60
    # From the statistics: the worker has pruned all but the newest jobs.
    stats = await queue.stats(minute - 30, minute + 1)
    check_count(sum(stat.complete for stat in stats), JOBS, "jobs completed")
    for state in kue.State:
        if state is not kue.State.COMPLETE:
            check_count(await queue.count(state, type_of(0)), 0, f"{state} jobs left")
