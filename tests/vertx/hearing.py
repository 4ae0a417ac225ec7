"""What was told, for tests to wait for; and jobs brought through their lives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kue import Job, Kue
from kue.bus import EventBus
from kue.model.job import Ending
from kue.vertx import Addresses, EventPublisher
from tests.bus.hearing import Heard
from tests.support.jobs import claim_one, end

AT = Addresses()


def at(bus: EventBus, address: str) -> Heard:
    """Listen at an address, whatever is told there."""
    heard = Heard()
    bus.consumer(address, lambda message: heard(message.body))
    return heard


def at_job(bus: EventBus, event: str, job: Job) -> Heard:
    return at(bus, AT.job(event, job.address_id, job.type))


def at_queue(bus: EventBus, event: str) -> Heard:
    return at(bus, AT.queue(event))


@asynccontextmanager
async def relayed(
    q: Kue, bus: EventBus, addresses: Addresses = AT
) -> AsyncIterator[EventPublisher]:
    """Publish the events of a queue."""
    relay = EventPublisher(q, bus, addresses)
    await relay.start()
    yield relay
    await relay.stop()


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
