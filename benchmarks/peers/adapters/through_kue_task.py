"""Kue with tasks: arguments by name, validated and converted by their annotations."""

from __future__ import annotations

import uvloop

import kue
from benchmarks.peers.adapters import awaited, tasks
from benchmarks.peers.adapters.connection import URL

FUNCTIONS = {"noop": tasks.anoop, "nap": tasks.anap, "ping": tasks.aping}


def work(task: str, slots: int) -> None:
    uvloop.run(_work(task, slots))


async def _work(task: str, slots: int) -> None:
    async with kue.Kue(URL) as queue:
        queue.task(name=task, concurrency=slots)(FUNCTIONS[task])
        await queue.run()


class Producer(awaited.Producer):
    async def open(self) -> None:
        self._queue = kue.Kue(URL)
        self._tasks = {
            name: self._queue.task(name=name)(function)
            for name, function in FUNCTIONS.items()
        }
        await self._queue.open()

    async def close(self) -> None:
        await self._queue.close()

    async def add(self, task: str, number: int) -> None:
        await self._tasks[task].enqueue(i=number)

    async def add_many(self, task: str, numbers: range) -> None:
        await self._tasks[task].enqueue_many({"i": number} for number in numbers)


producer = Producer
