"""Shared data in this runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.runtime.shared.async_map import LocalAsyncMap
from kue.runtime.shared.counter import LocalCounter
from kue.runtime.shared.locks import LocalLocks

if TYPE_CHECKING:
    from kue.model.duration import Duration
    from kue.runtime.shared.async_map import CallLater
    from kue.runtime.shared.contract import Lock


class LocalShared:
    """
    Maps, locks and counters for all threads of the runtime.

    Args:
        call_later: Calls a function later; entries with a ttl expire by it.
    """

    def __init__(self, call_later: CallLater) -> None:
        self._call_later = call_later
        self._maps: dict[str, LocalAsyncMap] = {}
        self._counters: dict[str, LocalCounter] = {}
        self._locks = LocalLocks()

    async def open(self) -> None:
        """Do nothing: it is part of an open runtime."""

    async def close(self) -> None:
        """Do nothing."""

    async def map(self, name: str) -> LocalAsyncMap:
        return self._maps.setdefault(name, LocalAsyncMap(self._call_later))

    async def lock(self, name: str, *, timeout: Duration) -> Lock:
        return await self._locks.acquire(name, timeout)

    async def counter(self, name: str) -> LocalCounter:
        return self._counters.setdefault(name, LocalCounter())
