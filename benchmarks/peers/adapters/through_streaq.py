"""streaQ with default settings."""

from __future__ import annotations

from streaq import Worker

from benchmarks.peers.adapters import awaited, tasks
from benchmarks.peers.adapters.connection import URL

FUNCTIONS = {"noop": tasks.anoop, "nap": tasks.anap, "ping": tasks.aping}


def make_worker(slots: int) -> Worker:
    worker = Worker(redis_url=URL, concurrency=slots, handle_signals=False)
    for name, function in FUNCTIONS.items():
        worker.task(name=name)(function)
    return worker


def work(task: str, slots: int) -> None:
    make_worker(slots).run_sync()


class Producer(awaited.Producer):
    def __init__(self) -> None:
        self._worker = Worker(redis_url=URL, handle_signals=False)
        self._tasks = {
            name: self._worker.task(name=name)(function)
            for name, function in FUNCTIONS.items()
        }

    async def open(self) -> None:
        await self._worker.__aenter__()

    async def close(self) -> None:
        await self._worker.__aexit__(None, None, None)

    async def add(self, task: str, number: int) -> None:
        await self._tasks[task].enqueue(i=number)

    async def add_many(self, task: str, numbers: range) -> None:
        enqueue = self._tasks[task].enqueue
        await self._worker.enqueue_many([enqueue(i=number) for number in numbers])


producer = Producer
