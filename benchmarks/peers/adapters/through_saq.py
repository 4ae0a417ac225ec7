"""SAQ with default settings."""

from __future__ import annotations

from typing import Any

import uvloop
from saq import Queue, Worker

from benchmarks.peers.adapters import awaited, tasks
from benchmarks.peers.adapters.connection import URL


async def noop(context: Any, *, i: int) -> None:
    tasks.noop(i)


async def nap(context: Any, *, i: int) -> None:
    await tasks.anap(i)


async def ping(context: Any, *, i: int) -> None:
    tasks.ping(i)


def work(task: str, slots: int) -> None:
    uvloop.run(_work(slots))


async def _work(slots: int) -> None:
    queue = Queue.from_url(URL)
    await queue.connect()
    await Worker(queue, [noop, nap, ping], concurrency=slots).start()


class Producer(awaited.Producer):
    async def open(self) -> None:
        self._queue = Queue.from_url(URL)
        await self._queue.connect()

    async def close(self) -> None:
        await self._queue.disconnect()

    async def add(self, task: str, number: int) -> None:
        await self._queue.enqueue(task, i=number)


producer = Producer
