"""What was told, for tests to wait for; and jobs brought through their lives."""

from __future__ import annotations

import asyncio
from typing import Any

from kue import Job, Kue
from kue.bus import EventBus, Message
from kue.model.job import Ending
from kue.vertx import Addresses
from tests.support.jobs import claim_one, end

AT = Addresses()


class Heard:
    """A listener that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self._news = asyncio.Event()

    def __call__(self, body: Any) -> None:
        self.told.append(body)
        self._news.set()

    def message(self, message: Message) -> None:
        self(message.body)

    async def hears(self, count: int = 1) -> list[Any]:
        """Wait until it was told that often, and return all it was told."""
        async with asyncio.timeout(50):
            while len(self.told) < count:
                self._news.clear()
                await self._news.wait()
        return self.told

    async def next(self) -> Any:
        """Wait for the first that was told."""
        return (await self.hears())[0]


def at(bus: EventBus, address: str) -> Heard:
    """Listen at an address, whatever is told there."""
    heard = Heard()
    bus.consumer(address, heard.message)
    return heard


def at_job(bus: EventBus, event: str, job: Job) -> Heard:
    return at(bus, AT.job(event, job.address_id, job.type))


def at_queue(bus: EventBus, event: str) -> Heard:
    return at(bus, AT.queue(event))


async def add(q: Kue, type: str = "email", data: Any = None, **options: Any) -> Job:
    """Add a job and return it."""
    handle = await q.enqueue(type, data, **options)
    return await handle.refresh()


async def start(q: Kue, job: Job) -> Job:
    """Start the one job of its type that waits."""
    return await claim_one(q.store, job.type, now=await q.now())


async def finish(q: Kue, job: Job, ending: Ending) -> None:
    """Start a job and end it."""
    await end(q.store, await start(q, job), ending, now=await q.now())
