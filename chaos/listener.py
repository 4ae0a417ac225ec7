"""Listener: receives all events of a run."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kue import Event, Kind
    from kue.store.contract import Events, Store

#: More than a run has.
BUFFER = 1_000_000
#: After this long without an event, no more are expected.
QUIET_SECONDS = 0.5


class Listener:
    """Collects the events of a store."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.counts: Counter[Kind] = Counter()

    @asynccontextmanager
    async def listening(self, store: Store) -> AsyncIterator[None]:
        """Listen from the beginning to the end of the body."""
        async with store.watch(buffer=BUFFER) as events:
            receiving = asyncio.create_task(self._receive(events))
            try:
                yield
            finally:
                receiving.cancel()
                await asyncio.gather(receiving, return_exceptions=True)

    async def until_quiet(self) -> None:
        """Return once no event has been received for a while."""
        count = -1
        while count != len(self.events):
            count = len(self.events)
            # The absence of events is awaited.
            await asyncio.sleep(QUIET_SECONDS)

    async def _receive(self, events: Events) -> None:
        async for event in events:
            self.events.append(event)
            self.counts[event.kind] += 1
