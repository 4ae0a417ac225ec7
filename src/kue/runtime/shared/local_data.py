"""Shared data in this runtime."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kue.runtime.shared.async_map import LocalAsyncMap
from kue.runtime.shared.contract import Counter
from kue.runtime.shared.locks import LocalLocks
from kue.runtime.shared.values import check_number

if TYPE_CHECKING:
    from kue.model.duration import Duration
    from kue.runtime.shared.async_map import CallLater
    from kue.runtime.shared.contract import Lock


class LocalCounter(Counter):
    """An integer shared by all threads of one runtime."""

    def __init__(self) -> None:
        self._number = 0
        self._lock = threading.Lock()

    async def get(self) -> int:
        return self._number

    async def add_and_get(self, number: int) -> int:
        return await self.get_and_add(number) + number

    async def get_and_add(self, number: int) -> int:
        check_number(number)
        with self._lock:
            before = self._number
            self._number = check_number(before + number)
            return before

    async def compare_and_set(self, expected: int, number: int) -> bool:
        check_number(number)
        with self._lock:
            is_equal = self._number == expected
            if is_equal:
                self._number = number
            return is_equal


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
