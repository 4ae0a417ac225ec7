"""
Docket.

Its default of polling every 250 ms caps a drain, so it polls every ms here; and 100
jobs at once need more than the 100 connections that its client allows by default.
"""

from __future__ import annotations

from datetime import timedelta

import uvloop
from docket import Docket, Worker

from benchmarks.peers.adapters import awaited, tasks
from benchmarks.peers.adapters.connection import URL

ROOMY_URL = f"{URL}?max_connections=400"
POLL = timedelta(milliseconds=1)
TASKS = {"noop": tasks.anoop, "nap": tasks.anap, "ping": tasks.aping}


def work(task: str, slots: int) -> None:
    uvloop.run(_work(slots))


async def _work(slots: int) -> None:
    async with Docket(name="bench", url=ROOMY_URL) as docket:
        for function in TASKS.values():
            docket.register(function)
        async with Worker(
            docket, concurrency=slots, minimum_check_interval=POLL
        ) as worker:
            await worker.run_forever()


class Producer(awaited.Producer):
    async def open(self) -> None:
        self._docket = Docket(name="bench", url=ROOMY_URL)
        await self._docket.__aenter__()

    async def close(self) -> None:
        await self._docket.__aexit__(None, None, None)

    async def add(self, task: str, number: int) -> None:
        await self._docket.add(TASKS[task])(i=number)

    async def add_many(self, task: str, numbers: range) -> None:
        call = self._docket.call
        await self._docket.add_many([call(TASKS[task])(i=number) for number in numbers])


producer = Producer
