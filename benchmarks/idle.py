"""The cost of an idle worker."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import kue
from benchmarks.lone_worker import started, type_of

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from benchmarks.readings import Readings

#: How long it is observed, in seconds.
WATCHED_SECONDS = 20.0
#: Types it has handlers for, and what the figures' names end with.
TYPES = {1: "", 20: "_20_types"}


class IdleFigures:
    """Measures an idle worker on an empty Redis."""

    def __init__(self, client: Redis, url: str, readings: Readings) -> None:
        self._client = client
        self._url = url
        self._readings = readings

    async def measure(self) -> None:
        for types, suffix in TYPES.items():
            await self._client.flushall()
            async with started(self._url, types=types) as worker:
                await _try_out(self._url, types)
                cpu, commands = await self._watch(worker.pid)
                await worker.stop()
            self._readings.add(f"redis.idle_cpu{suffix}", cpu)
            self._readings.add(f"redis.idle_commands{suffix}", commands)

    async def _watch(self, pid: int) -> tuple[float, float]:
        """Return its share of a core in percent, and commands sent per second."""
        calls, cpu, began = await self._calls(), _cpu_seconds(pid), time.monotonic()
        # The cost over a fixed time is measured.
        await asyncio.sleep(WATCHED_SECONDS)
        seconds = time.monotonic() - began
        took = _cpu_seconds(pid) - cpu
        # Without our own second call.
        sent = await self._calls() - calls - 1
        return took / seconds * 100, sent / seconds

    async def _calls(self) -> int:
        """Return how many reads from clients Redis has processed."""
        return int((await self._client.info("stats"))["total_reads_processed"])


async def _try_out(url: str, types: int) -> None:
    """Check that it runs jobs of each type; then it is idle."""
    async with kue.Kue(url) as queue:
        for number in range(types):
            job = await queue.enqueue(type_of(number), {"i": 1})
            await job.result(timeout=30)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
