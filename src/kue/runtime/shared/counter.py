"""A counter that is kept in this process."""

from __future__ import annotations

import threading

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class LocalCounter:
    """A whole number that all threads of one runtime count with."""

    def __init__(self) -> None:
        self._number = 0
        self._lock = threading.Lock()

    async def get(self) -> int:
        return self._number

    async def increment_and_get(self) -> int:
        return await self.add_and_get(1)

    async def get_and_increment(self) -> int:
        return await self.get_and_add(1)

    async def decrement_and_get(self) -> int:
        return await self.add_and_get(-1)

    async def add_and_get(self, number: int) -> int:
        return await self.get_and_add(number) + number

    async def get_and_add(self, number: int) -> int:
        with self._lock:
            before = self._number
            self._number = _checked(before + number)
            return before

    async def compare_and_set(self, expected: int, number: int) -> bool:
        with self._lock:
            is_so = self._number == expected
            if is_so:
                self._number = _checked(number)
            return is_so


def _checked(number: int) -> int:
    if not _SMALLEST <= number <= _LARGEST:
        raise OverflowError(f"a counter has 64 bits, and {number} does not fit")
    return number
