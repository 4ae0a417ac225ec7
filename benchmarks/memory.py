"""Does a worker's memory stay as it is, however many jobs it has run?"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import kue
from benchmarks.delivery import check_count
from benchmarks.lone_worker import started, type_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from benchmarks.readings import Readings

#: Jobs after which it is weighed.  By the first, whatever grows to its size once has.
MARKS = (20_000, 100_000, 200_000)
JOBS = MARKS[-1]
MEGABYTE = 1_000_000


class MemoryFigures:
    """
    Weighs a worker process on one engine.

    Args:
        engine: What the names of the figures begin with.
        empty: Gives the URL of an empty store.
    """

    def __init__(
        self, engine: str, empty: Callable[[], Awaitable[str]], readings: Readings
    ) -> None:
        self._engine = engine
        self._empty = empty
        self._readings = readings

    async def measure(self) -> None:
        """Have a worker run jobs and weigh it meanwhile."""
        url = await self._empty()
        weights = await _weigh(url)
        for mark, weight in zip(MARKS, weights, strict=True):
            name = f"{self._engine}.rss_{mark // 1000}k"
            self._readings.add(name, weight / MEGABYTE)
        growth = weights[-1] / weights[0]
        self._readings.add(f"{self._engine}.rss_growth_200k", growth)


async def _weigh(url: str) -> list[int]:
    """Return what a worker holds at each mark, in bytes."""
    async with kue.Kue(url) as queue:
        data = ({"i": number} for number in range(JOBS))
        await queue.enqueue_many(type_of(0), data, attempts=2)
        async with started(url, marks=MARKS) as worker:
            weights = [int(await worker.say()) for _ in MARKS]
            await worker.stop()
        await _check(queue)
    return weights


async def _check(queue: kue.Kue) -> None:
    minute = int(time.time()) // 60
    # In the statistics: of the jobs themselves the worker kept only the newest.
    stats = await queue.stats(minute - 30, minute + 1)
    check_count(sum(stat.complete for stat in stats), JOBS, "jobs completed")
    for state in kue.State:
        if state is not kue.State.COMPLETE:
            check_count(await queue.count(state, type_of(0)), 0, f"{state} jobs left")
