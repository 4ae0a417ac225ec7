"""BullMQ for Python; completed jobs are kept, which is its default and Kue's."""

from __future__ import annotations

import asyncio
from typing import Any

import uvloop
from bullmq import Queue, Worker

from benchmarks.peers.adapters import awaited, tasks
from benchmarks.peers.adapters.connection import URL

QUEUE = "bench"
TASKS = {"noop": tasks.anoop, "nap": tasks.anap, "ping": tasks.aping}


async def process(job: Any, token: str) -> None:
    await TASKS[job.name](job.data["i"])


def work(task: str, slots: int) -> None:
    uvloop.run(_work(slots))


async def _work(slots: int) -> None:
    worker = Worker(QUEUE, process, {"connection": URL, "concurrency": slots})
    try:
        await asyncio.Event().wait()
    finally:
        await worker.close()


class Producer(awaited.Producer):
    async def open(self) -> None:
        self._queue = Queue(QUEUE, {"connection": URL})

    async def close(self) -> None:
        await self._queue.close()

    async def add(self, task: str, number: int) -> None:
        await self._queue.add(task, {"i": number}, {})

    async def add_many(self, task: str, numbers: range) -> None:
        await self._queue.addBulk(
            [{"name": task, "data": {"i": number}, "opts": {}} for number in numbers]
        )


producer = Producer
