"""A shared counter in this process."""

from __future__ import annotations

import threading

from kue.runtime.shared.values import check_number


class LocalCounter:
    """An integer shared by all threads of one runtime."""

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
