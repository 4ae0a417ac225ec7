"""
One worker in a separate process, for figures of a process.

``python -m benchmarks.lone_worker URL TYPES MARK…`` runs jobs until it is stopped, and
prints its memory when it has run as many jobs as each mark.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import uvloop

import kue
from kue.worker.status import memory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

#: Jobs of each type that run at once.
SLOTS = 200
#: Ended jobs that are kept: few, so that pruning is measured, too.
KEPT = 1_000
#: Every 10th job writes to its log; every 100th fails at its first attempt.
LOG_EVERY, FAIL_EVERY = 10, 100


def type_of(number: int) -> str:
    return f"noop-{number}"


class Counter:
    """Counts runs that succeeded."""

    def __init__(self, marks: Sequence[int]) -> None:
        self._marks = frozenset(marks)
        self._runs = 0

    async def handle(self, job: kue.ActiveJob) -> None:
        number = job.data["i"]
        if not number % LOG_EVERY:
            job.log(f"job {job.id} is at work")
        if not number % FAIL_EVERY and job.attempt == 1:
            raise ValueError(f"job {job.id} stumbled")
        self._runs += 1
        if self._runs in self._marks:
            _print_line(memory())


class LoneWorker:
    """The process, seen from the benchmark."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def read_line(self) -> str:
        """Return its next line; raises `RuntimeError` when it has ended."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the worker ended")
        return line.decode().strip()

    async def stop(self) -> None:
        """Stop it gracefully, so that all outcomes are stored; raises if it failed."""
        self._process.send_signal(signal.SIGTERM)
        if code := await self._process.wait():
            raise RuntimeError(f"the worker ended with code {code}")


@asynccontextmanager
async def started(
    url: str, *, types: int = 1, marks: Sequence[int] = ()
) -> AsyncIterator[LoneWorker]:
    """Start a worker for *types* types; kill it after the body if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.lone_worker"),
        *map(str, (url, types, *marks)),
        stdout=asyncio.subprocess.PIPE,
    )
    worker = LoneWorker(process)
    try:
        await worker.read_line()
        yield worker
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _work(url: str, types: int, marks: Sequence[int]) -> None:
    counter = Counter(marks)
    async with kue.Kue(url, keep_complete=KEPT) as queue:
        for number in range(types):
            queue.process(type_of(number), SLOTS, counter.handle)
        await queue.open()
        _print_line("ready")
        await queue.run()


def _print_line(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _url, _types, *_marks = sys.argv[1:]
    uvloop.run(_work(_url, int(_types), [*map(int, _marks)]))
