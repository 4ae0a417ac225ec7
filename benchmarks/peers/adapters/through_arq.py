"""arq with default settings."""

from __future__ import annotations

import asyncio
from typing import Any

import uvloop
from arq import create_pool
from arq.connections import RedisSettings
from arq.worker import Worker, func

from benchmarks.peers.adapters import awaited, tasks
from benchmarks.peers.adapters.connection import HOST, PORT

SETTINGS = RedisSettings(host=HOST, port=PORT)


async def noop(context: Any, i: int) -> None:
    tasks.noop(i)


async def nap(context: Any, i: int) -> None:
    await tasks.anap(i)


async def ping(context: Any, i: int) -> None:
    tasks.ping(i)


def work(task: str, slots: int) -> None:
    # Its worker uses the loop that is current when it is created.
    asyncio.set_event_loop(uvloop.new_event_loop())
    functions = [func(function) for function in (noop, nap, ping)]
    Worker(functions, redis_settings=SETTINGS, max_jobs=slots, log_results=False).run()


class Producer(awaited.Producer):
    async def open(self) -> None:
        self._pool = await create_pool(SETTINGS)

    async def close(self) -> None:
        await self._pool.aclose()

    async def add(self, task: str, number: int) -> None:
        await self._pool.enqueue_job(task, i=number)


producer = Producer
