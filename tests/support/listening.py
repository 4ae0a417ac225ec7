"""Listening to a store and knowing when everything was received."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from kue.model.events import Event, Kind
from kue.store.contract import Store
from kue.store.values import RemoveRequest
from tests.support.jobs import T0
from tests.support.patience import PATIENCE_SECONDS


async def read_until(
    events: AsyncIterator[Event], is_last: Callable[[Event], bool]
) -> list[Event]:
    """Return what is published up to and with the event that *is_last*."""
    received: list[Event] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for event in events:
            received.append(event)
            if is_last(event):
                return received
    raise AssertionError(f"the events came to an end after {received}")


async def story_of(
    store: Store, events: AsyncIterator[Event], job_id: int, *, now: int = T0
) -> list[Event]:
    """Remove the job and return all that was published before, whatever it is about."""
    await store.remove(RemoveRequest([job_id], force=True), now=now)
    received = await read_until(
        events, lambda event: event.kind is Kind.REMOVE and event.job_id == job_id
    )
    return received[:-1]


def kinds(events: list[Event]) -> list[Kind]:
    return [event.kind for event in events]
