"""The producer for queues with an async API; all of them run on uvloop."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import uvloop

from benchmarks.peers.adapters.pace import (
    BULK,
    IDLE_SECONDS,
    LOOK_SECONDS,
    TOGETHER,
    Adds,
    Patience,
    Pings,
    seconds_since,
)
from benchmarks.peers.adapters.tally import arrivals, now

if TYPE_CHECKING:
    from collections.abc import Sequence


class Producer:
    """Adds jobs; verbs return the seconds they took, connecting not included."""

    async def open(self) -> None:
        """Connect."""

    async def close(self) -> None:
        """Disconnect."""

    async def add(self, task: str, number: int) -> None:
        raise NotImplementedError

    async def add_many(self, task: str, numbers: range) -> None:
        """Add in bulk; concurrently where a queue has no bulk call."""
        for some in Adds(task, numbers).slices(TOGETHER):
            await asyncio.gather(*(self.add(task, number) for number in some))

    def measure(self, verb: str, arguments: Sequence[str]) -> float:
        return uvloop.run(self._measure(verb, arguments))

    async def _measure(self, verb: str, arguments: Sequence[str]) -> float:
        await self.open()
        try:
            if verb == "ping":
                return await self.ping(Pings(arguments))
            add = {"one": self.one, "together": self.together, "bulk": self.bulk}[verb]
            return await add(Adds.of(arguments))
        finally:
            await self.close()

    async def one(self, adds: Adds) -> float:
        began = now()
        for number in adds.numbers:
            await self.add(adds.task, number)
        return seconds_since(began)

    async def together(self, adds: Adds) -> float:
        began = now()
        for some in adds.slices(TOGETHER):
            await asyncio.gather(*(self.add(adds.task, number) for number in some))
        return seconds_since(began)

    async def bulk(self, adds: Adds) -> float:
        began = now()
        for some in adds.slices(BULK):
            await self.add_many(adds.task, some)
        return seconds_since(began)

    async def ping(self, pings: Pings) -> float:
        began = now()
        for sent in pings:
            await self.add("ping", now())
            patience = Patience()
            while arrivals() <= sent:
                patience.check()
                # uvloop counts in milliseconds: its sleep would be a busy wait here, on
                # the core that Redis uses.
                await asyncio.sleep(0)
                time.sleep(LOOK_SECONDS)  # noqa: ASYNC251
            await asyncio.sleep(IDLE_SECONDS)
        return seconds_since(began)
