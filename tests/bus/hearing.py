"""Handlers that write down what they hear, and can be waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from kue.bus import EventBus, Message, RequestFailed
from tests.support.patience import PATIENCE_SECONDS


class Heard:
    """Writes down what it is called with; `told` has it, in order."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self._news = asyncio.Event()

    def __call__(self, it: Any) -> None:
        self.told.append(it)
        self._news.set()

    async def hears(self, count: int = 1) -> list[Any]:
        """Wait until it was told that often, and return all it was told."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.told) < count:
                self._news.clear()
                await self._news.wait()
        return self.told

    async def next(self) -> Any:
        """Wait for the first that was told."""
        return (await self.hears())[0]


class Ear(Heard):
    """A handler of messages; `bodies` has what it heard, in order."""

    @property
    def messages(self) -> list[Message]:
        return self.told

    @property
    def bodies(self) -> list[Any]:
        return [message.body for message in self.messages]

    async def hears(self, count: int = 1) -> list[Any]:
        await super().hears(count)
        return self.bodies


def listen(bus: EventBus, address: str) -> Ear:
    """Listen at an address."""
    ear = Ear()
    bus.consumer(address, ear)
    return ear


async def failure_of(
    request: Awaitable[object], match: str | None = None
) -> RequestFailed:
    """Return why a request fails."""
    with pytest.raises(RequestFailed, match=match) as failed:
        await request
    return failed.value


async def turns(count: int = 3) -> None:
    """Let everyone in this loop have a few turns: what was due has happened then."""
    for _ in range(count):
        await asyncio.sleep(0)
