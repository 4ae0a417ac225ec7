"""A shared counter in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.names import quote
from kue.runtime.shared.values import check_number, too_large

if TYPE_CHECKING:
    from kue.runtime.shared.redis.idempotent_calls import IdempotentCalls


class RedisCounter:
    """An integer shared by all processes."""

    def __init__(self, calls: IdempotentCalls, name: str) -> None:
        self._calls = calls
        self._root = calls.root(name)
        self._name = quote(name)

    async def get(self) -> int:
        key = f"{self._root}:counter:{self._name}"
        return int(await self._calls.command(self._root, "GET", key) or 0)

    async def increment_and_get(self) -> int:
        return await self.add_and_get(1)

    async def get_and_increment(self) -> int:
        return await self.get_and_add(1)

    async def decrement_and_get(self) -> int:
        return await self.add_and_get(-1)

    async def add_and_get(self, number: int) -> int:
        check_number(number)
        total = await self._calls.change("counter_add", self._root, self._name, number)
        if total is None:
            raise too_large(f"{number} more than the current value")
        return int(total)

    async def get_and_add(self, number: int) -> int:
        return await self.add_and_get(number) - number

    async def compare_and_set(self, expected: int, number: int) -> bool:
        check_number(number)
        answer = await self._calls.change(
            "counter_set", self._root, self._name, f"{expected:d}", number
        )
        return answer is not None
