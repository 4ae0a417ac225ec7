"""A listener to all events of a store, which compares them with what must be told."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.events import Event
    from kue.store.base import Events, Store

#: Longer than an event takes on a busy machine.
PATIENCE_SECONDS = 10.0


class Ear:
    """Hears each event exactly once, or the test fails."""

    def __init__(self, stack: AsyncExitStack, events: Events) -> None:
        self._stack = stack
        self._events = events

    @classmethod
    async def open(cls, store: Store, job_ids: Sequence[int] | None = None) -> Ear:
        stack = AsyncExitStack()
        return cls(stack, await stack.enter_async_context(store.watch(job_ids)))

    async def close(self) -> None:
        await self._stack.aclose()

    async def hear(self, number: int) -> list[Event]:
        """Return the next *number* events."""
        heard: list[Event] = []
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(heard) < number:
                    heard.append(await anext(self._events))
        except TimeoutError:
            raise AssertionError(
                f"heard only {len(heard)} of {number} events: {heard}"
            ) from None
        return heard
