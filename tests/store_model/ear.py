"""A listener to all events of a store, which compares them with what must be told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack

from kue.model.events import Event
from kue.store.contract import Events, Store
from tests.support.patience import PATIENCE_SECONDS


class Ear:
    """Hears each event exactly once, or the test fails."""

    def __init__(self, stack: AsyncExitStack, events: Events) -> None:
        self._stack = stack
        self._events = events
        #: What may still come although nobody is to miss it.
        self._perhaps: Counter[tuple[str, int]] = Counter()

    @classmethod
    async def open(cls, store: Store, job_ids: Sequence[int] | None = None) -> Ear:
        stack = AsyncExitStack()
        return cls(stack, await stack.enter_async_context(store.watch(job_ids)))

    async def close(self) -> None:
        await self._stack.aclose()

    async def hear(
        self, wanted: Sequence[Event], perhaps: Sequence[Event] = ()
    ) -> list[Event]:
        """Return as many events as are *wanted*, without those that *perhaps* come."""
        heard: list[Event] = []
        missing = Counter(map(_short, wanted))
        # One that comes after the last of the wanted is heard in the next call.
        self._perhaps.update(map(_short, perhaps))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(heard) < len(wanted):
                    event = await anext(self._events)
                    if not missing[_short(event)] and self._perhaps[_short(event)]:
                        self._perhaps[_short(event)] -= 1
                    else:
                        missing[_short(event)] -= 1
                        heard.append(event)
        except TimeoutError:
            raise AssertionError(f"nobody told of {list(+missing)}") from None
        return heard


def _short(event: Event) -> tuple[str, int]:
    return event.kind.value, event.job_id
