"""
Lines to Redis: connections that carry one call at a time.

redis-py opens and keeps the connections.  What it does around each call (a condition, a
lock, metrics, events) took as long as the rest of the call, so here a call takes an
idle connection from a list, writes, reads, and puts it back.  A connection whose call
was cut short, by an error or by being cancelled, closes itself; the next opens it anew.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis.asyncio as aioredis


class Lines:
    """Connections to one node for one purpose, at most *limit* of them."""

    def __init__(self, pool: aioredis.ConnectionPool, limit: int) -> None:
        self._pool: Any = pool
        self._idle: list[Any] = []
        self._all: list[Any] = []
        self._places = asyncio.Semaphore(limit)

    async def call(self, *command: Any) -> Any:
        """Send a command and return the reply as Redis gave it."""
        async with self._places:
            line = self._idle.pop() if self._idle else self._new()
            try:
                await _ready(line)
                packed = line.pack_command(*command)
                await line.send_packed_command(packed, check_health=False)
                return await line.read_response()
            finally:
                self._idle.append(line)

    async def close(self) -> None:
        """Close every connection, and what is on its way over one."""
        for line in self._all:
            await line.disconnect()

    def _new(self) -> Any:
        line = self._pool.make_connection()
        self._all.append(line)
        return line


async def _ready(line: Any) -> None:
    # What nobody asked for can only be the end, or the rest of another's answer.
    if line.is_connected and not await _is_clean(line):
        await line.disconnect(nowait=True)
    if not line.is_connected:
        await line.connect()


async def _is_clean(line: Any) -> bool:
    try:
        return not await line.can_read()
    except OSError:
        return False
