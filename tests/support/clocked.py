"""A store, and the time between its calls, by a clock that the test owns."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

from kue.store.contract import Store

#: How long a wait may last by the clock on the wall.
MOMENT = 0.01


class OwnTime:
    """A clock that stands still until a test moves it, and that one can sleep by."""

    def __init__(self) -> None:
        self._now = 1_800_000_000_000
        self._moved = asyncio.Condition()

    def now_ms(self) -> int:
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was moved that far."""
        due = self.now_ms() + round(seconds * 1000)
        async with self._moved:
            await self._moved.wait_for(lambda: self.now_ms() >= due)

    async def pass_(self, milliseconds: int) -> int:
        """Move the clock and wake who slept for less; return the time."""
        async with self._moved:
            self._now += milliseconds
            self._moved.notify_all()
        return self._now


class ClockedStore:
    """A real store whose every call happens at the time of the test's clock."""

    def __init__(self, store: Store, time: OwnTime) -> None:
        self._store = store
        self._time = time
        #: The time of the last pass of maintenance that left nothing to do.
        self.tended_at = 0

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if "now" not in _parameters(verb):
            return verb

        async def at_our_time(*args: Any, **given: Any) -> Any:
            return await verb(*args, **{"now": self._time.now_ms(), **given})

        return at_our_time

    async def now(self) -> int:
        return self._time.now_ms()

    async def tend(self, **given: Any) -> Any:
        now = self._time.now_ms()
        tended = await self._store.tend(**given, now=now)
        if not tended.more:
            self.tended_at = now
        return tended

    async def wait(self, types: list[str], timeout: float) -> frozenset[str]:
        """Sleep no longer than a moment: time passes when the test says so."""
        await self._store.wait(types, min(timeout, MOMENT))
        return frozenset(types)


def _parameters(verb: Any) -> Any:
    return inspect.signature(verb).parameters if callable(verb) else {}
