"""A handler that writes down what it hears, and can be waited for."""

from __future__ import annotations

import asyncio
from typing import Any

from kue.bus import Message


class Ear:
    """Called as a handler; `bodies` has what it heard, in order."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._heard = asyncio.Event()

    def __call__(self, message: Message) -> None:
        self.messages.append(message)
        self._heard.set()

    @property
    def bodies(self) -> list[Any]:
        return [message.body for message in self.messages]

    async def hears(self, count: int) -> list[Any]:
        """Wait until it heard that many, and return them."""
        async with asyncio.timeout(50):
            while len(self.messages) < count:
                self._heard.clear()
                await self._heard.wait()
        return self.bodies


async def turns(count: int = 3) -> None:
    """Let everyone in this loop have a few turns: what was due has happened then."""
    for _ in range(count):
        await asyncio.sleep(0)
