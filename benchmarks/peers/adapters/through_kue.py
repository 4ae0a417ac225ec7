"""Kue with `q.process` and `q.enqueue`, as a program would use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvloop

import kue
from benchmarks.peers.adapters import awaited, tasks
from benchmarks.peers.adapters.connection import URL

if TYPE_CHECKING:
    from kue import ActiveJob


async def noop(job: ActiveJob) -> None:
    tasks.noop(job.data["i"])


async def nap(job: ActiveJob) -> None:
    await tasks.anap(job.data["i"])


async def ping(job: ActiveJob) -> None:
    tasks.ping(job.data["i"])


HANDLERS = {"noop": noop, "nap": nap, "ping": ping}


def work(task: str, slots: int) -> None:
    uvloop.run(_work(task, slots))


async def _work(task: str, slots: int) -> None:
    async with kue.Kue(URL) as queue:
        queue.process(task, slots, HANDLERS[task])
        await queue.run()


class Producer(awaited.Producer):
    async def open(self) -> None:
        self._queue = kue.Kue(URL)
        await self._queue.open()

    async def close(self) -> None:
        await self._queue.close()

    async def add(self, task: str, number: int) -> None:
        await self._queue.enqueue(task, {"i": number})

    async def add_many(self, task: str, numbers: range) -> None:
        await self._queue.enqueue_many(task, ({"i": number} for number in numbers))


producer = Producer
