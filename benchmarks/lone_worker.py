"""
One worker in a process of its own, for figures of a process.

``python -m benchmarks.lone_worker URL TYPES MARK…`` works until it is told to stop, and
says how much memory it holds when it has run as many jobs as each mark.
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
#: Ended jobs that are kept: few, so that there is pruning to do.
KEPT = 1_000
#: One job of so many says something, and one fails before it ends well.
TALKATIVE, CLUMSY = 10, 100


def type_of(number: int) -> str:
    return f"noop-{number}"


class Tally:
    """Counts runs that ended well."""

    def __init__(self, marks: Sequence[int]) -> None:
        self._marks = frozenset(marks)
        self._runs = 0

    async def handle(self, job: kue.ActiveJob) -> None:
        number = job.data["i"]
        if not number % TALKATIVE:
            job.log(f"job {job.id} is at work")
        if not number % CLUMSY and job.attempt == 1:
            raise ValueError(f"job {job.id} stumbled")
        self._runs += 1
        if self._runs in self._marks:
            _say(memory())


class LoneWorker:
    """The process, as those who measure it see it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def say(self) -> str:
        """Return its next line; raises `RuntimeError` when it is gone."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError("the worker ended")
        return line.decode().strip()

    async def stop(self) -> None:
        """End it, so that all its outcomes are written; raises when it ends badly."""
        self._process.send_signal(signal.SIGTERM)
        if code := await self._process.wait():
            raise RuntimeError(f"the worker ended with code {code}")


@asynccontextmanager
async def started(
    url: str, *, types: int = 1, marks: Sequence[int] = ()
) -> AsyncIterator[LoneWorker]:
    """Start a worker for *types* types; after the body it is killed if it runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.lone_worker"),
        *map(str, (url, types, *marks)),
        stdout=asyncio.subprocess.PIPE,
    )
    worker = LoneWorker(process)
    try:
        await worker.say()
        yield worker
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _work(url: str, types: int, marks: Sequence[int]) -> None:
    tally = Tally(marks)
    async with kue.Kue(url, keep_complete=KEPT) as queue:
        for number in range(types):
            queue.process(type_of(number), SLOTS, tally.handle)
        await queue.open()
        _say("ready")
        await queue.run()


def _say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _url, _types, *_marks = sys.argv[1:]
    uvloop.run(_work(_url, int(_types), [*map(int, _marks)]))
