"""Idempotent calls to Redis: executed once, even if they are sent again."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any
from zlib import crc32

from kue.model.names import quote
from kue.store.redis.scripts import load

if TYPE_CHECKING:
    from kue.runtime.shared.redis.shared_data import ConnectionThread
    from kue.store.redis.scripts import Script
    from kue.store.redis.wire.client import RedisClient

PACKAGE = "kue.runtime.shared.redis"
#: Maps and counters are spread over so many hash tags, and so over a Redis Cluster.
#: All processes must agree on it.
SLICES = 64
#: As many as the client has connections for.
_CALLERS = 16


class IdempotentCalls:
    """
    Makes calls for maps and counters, from any thread.

    Each caller makes one call at a time, and numbers it: lua/lib/once.lua recognises a
    repetition by the number.
    """

    def __init__(
        self, thread: ConnectionThread, client: RedisClient, prefix: str, process: str
    ) -> None:
        self._thread = thread
        self._client = client
        self._prefix = quote(prefix)
        self._callers = [f"{process}:{number}" for number in range(_CALLERS)]
        self._free = asyncio.Semaphore(_CALLERS)
        self._numbers = itertools.count(1)

    def root(self, name: str) -> str:
        """Return the hash tag of the slice that holds *name*."""
        return f"{{{self._prefix}:shared:{crc32(name.encode()) % SLICES}}}"

    async def command(self, root: str, *command: Any) -> Any:
        """Send a command that only reads."""
        return await self._thread.call(self._client.read, root, *command)

    async def read(self, script: str, root: str, *args: Any) -> Any:
        """Run a script that only reads."""
        loaded = load(script, PACKAGE)
        return await self._thread.call(self._client.run, loaded, root, *args)

    async def change(self, script: str, root: str, *args: Any) -> bytes | None:
        """Run a script that returns + and some text, which is returned, or -."""
        return await self._thread.call(self._change, load(script, PACKAGE), root, args)

    async def _change(
        self, script: Script, root: str, args: tuple[Any, ...]
    ) -> bytes | None:
        """Do that in the connection thread."""
        async with self._free:
            caller = self._callers.pop()
            number = next(self._numbers)
            try:
                answer: bytes = await self._client.run(
                    script, root, caller, number, *args
                )
            finally:
                self._callers.append(caller)
        return answer[1:] if answer.startswith(b"+") else None
