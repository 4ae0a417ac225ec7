"""Hears all events of a run."""

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
#: Nothing heard for this long, there is nothing more to hear.
QUIET_SECONDS = 0.5


class Listener:
    """Collects what a store tells."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.heard: Counter[Kind] = Counter()

    @asynccontextmanager
    async def listening(self, store: Store) -> AsyncIterator[None]:
        """Listen from the beginning to the end of the body."""
        async with store.watch(buffer=BUFFER) as events:
            hearing = asyncio.create_task(self._hear(events))
            try:
                yield
            finally:
                hearing.cancel()
                await asyncio.gather(hearing, return_exceptions=True)

    async def until_quiet(self) -> None:
        """Return once nothing has been heard for a while."""
        count = -1
        while count != len(self.events):
            count = len(self.events)
            # Silence is what is awaited.
            await asyncio.sleep(QUIET_SECONDS)

    async def _hear(self, events: Events) -> None:
        async for event in events:
            self.events.append(event)
            self.heard[event.kind] += 1
