"""A shared map in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.names import quote
from kue.runtime.shared.values import EncodedMap, thaw

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kue.model.payload import JSON
    from kue.runtime.shared.redis.idempotent_calls import IdempotentCalls
    from kue.runtime.shared.values import Condition

#: A map of up to so many entries is read at once, a larger one in pieces.
WHOLE = 256
#: Entries in a piece, and the bytes that one should have.
_FEWEST, _MOST = 8, 1024
_BYTES = 1024 * 1024


class RedisMap(EncodedMap):
    """An `AsyncMap` for all processes."""

    def __init__(self, calls: IdempotentCalls, name: str) -> None:
        self._calls = calls
        self._root = calls.root(name)
        self._name = quote(name)

    async def _get(self, key: str) -> bytes | None:
        text: bytes | None = await self._calls.read(
            "map_get", self._root, self._name, key
        )
        return text

    async def clear(self) -> None:
        await self._calls.change("map_clear", self._root, self._name)

    async def size(self) -> int:
        return int(await self._calls.read("map_size", self._root, self._name))

    async def keys(self) -> list[str]:
        # In a large map that changes during the scan, a key may be read twice.
        found: dict[str, None] = {}
        async for piece in self._scan("keys"):
            found |= dict.fromkeys(key.decode() for key in piece)
        return list(found)

    async def entries(self) -> dict[str, JSON]:
        found: dict[str, JSON] = {}
        async for piece in self._scan("entries"):
            for key, text in zip(piece[::2], piece[1::2], strict=True):
                found[key.decode()] = thaw(text)
        return found

    async def _put(
        self, where: Condition, key: str, text: bytes, ms: int, old: bytes
    ) -> bytes | None:
        return await self._calls.change(
            "map_put", self._root, self._name, key, text, ms, where, old
        )

    async def _remove(self, key: str, old: bytes) -> bytes | None:
        return await self._calls.change("map_remove", self._root, self._name, key, old)

    async def _scan(self, what: str) -> AsyncIterator[list[bytes]]:
        cursor, count = b"0", WHOLE
        while True:
            cursor, piece = await self._calls.read(
                "map_scan", self._root, self._name, what, cursor, count, WHOLE
            )
            yield piece
            if cursor == b"0":
                return
            # Large pieces would block Redis, small ones need more calls.
            is_large = sum(map(len, piece)) > _BYTES
            count = max(_FEWEST, count // 4) if is_large else min(_MOST, count * 2)
