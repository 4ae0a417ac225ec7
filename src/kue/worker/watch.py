"""Sleeping with the store: once for all types that have nothing to do."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.outage import Outage
    from kue.store.base import Store
    from kue.worker.loop import Loop

#: The store wakes us for any work there is; this is only how long one call may last.
WAIT_SECONDS = 5.0


class Watch:
    """
    Waits for work on behalf of loops that ran out of it.

    A call to the store cannot be joined once it was made, so loops that run out later
    wait in a call of their own.  All of these calls end at the same multiples of
    WAIT_SECONDS, and become one.
    """

    def __init__(
        self,
        store: Store,
        loops: Sequence[Loop],
        outage: Outage,
        rested: asyncio.Event,
    ) -> None:
        self._store = store
        self._outage = outage
        self._loops = {loop.type: loop for loop in loops}
        #: Types that a call to the store waits for.
        self._asleep: set[str] = set()
        #: Set by loops that run out of work.
        self._rested = rested

    async def run(self) -> None:
        """Wait until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._rested.wait()
                # Loops that woke together run out together: let them.
                await asyncio.sleep(0)
                self._rested.clear()
                if types := self._idle():
                    self._asleep.update(types)
                    group.create_task(self._wait(types), name="kue wait")

    def _idle(self) -> list[str]:
        return [
            name
            for name, loop in self._loops.items()
            if loop.is_empty and name not in self._asleep
        ]

    async def _wait(self, types: list[str]) -> None:
        who = f"wait {types[0]}"
        woken = await self._outage.persist(who, lambda: self._sleep(types))
        self._asleep.difference_update(types)
        for name in types:
            loop = self._loops[name]
            if name in woken or loop.is_due:
                loop.wake()
        # Those that were not woken go on waiting.
        self._rested.set()

    async def _sleep(self, types: list[str]) -> frozenset[str]:
        return await self._store.wait(types, self._seconds(types))

    def _seconds(self, types: list[str]) -> float:
        now = asyncio.get_running_loop().time()
        until = (math.floor(now / WAIT_SECONDS) + 1) * WAIT_SECONDS
        rest = until - now
        dues = [self._loops[name].due for name in types]
        ahead = [due - now for due in dues if due is not None and due > now]
        return min([rest, *ahead])
