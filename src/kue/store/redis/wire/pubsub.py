"""
Publish and subscribe: a connection that is subscribed to channels.

As in `connection`, redis-py makes the connection and hands it over, and hiredis reads
what the transport receives.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import hiredis
from redis import exceptions

from kue.store.redis.wire.connection import INCOMPLETE, RedisProtocol

#: Unread bytes after which reading stops; the rest waits in Redis.
_MAX_BYTES = 1024 * 1024


class PubSub(RedisProtocol):
    """Receives messages of sharded channels, from `subscribe` until `close`."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        #: Subscriptions that Redis has yet to confirm.
        self._unconfirmed = 0
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._is_paused = False
        self._error: Exception | None = None
        #: Set when something was received, or the connection was lost.
        self._changed = asyncio.Event()

    async def subscribe(self, channels: tuple[str, ...]) -> None:
        """Subscribe; return once Redis has confirmed: no later message is missed."""
        self._unconfirmed = len(channels)
        command: Any = ("SSUBSCRIBE", *channels)
        self._transport.write(hiredis.pack_command(command))
        while self._unconfirmed:
            self._check()
            await self._wait_for_change(1.0)

    async def message(self, timeout: float) -> bytes | None:
        """Return the next message; None if none comes within *timeout* seconds."""
        if not self._messages:
            self._check()
            await self._wait_for_change(timeout)
            if not self._messages:
                self._check()
                return None
        message = self._messages.popleft()
        self._bytes -= len(message)
        if self._is_paused and not self._messages and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()
        return message

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not INCOMPLETE:
                self._handle(reply)
        except exceptions.InvalidResponse as exc:
            self._fail(exc)
        is_full = self._bytes >= _MAX_BYTES and not self._is_paused
        if is_full and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def _handle(self, reply: Any) -> None:
        if isinstance(reply, Exception):
            self._fail(reply)
        elif reply[0] == b"smessage":
            self._messages.append(reply[2])
            self._bytes += len(reply[2])
        elif reply[0] == b"ssubscribe":
            self._unconfirmed -= 1
        elif reply[0] == b"sunsubscribe":
            # Sent by a node of a Cluster when the slot has moved to another.
            self._fail(exceptions.ConnectionError("the slot has moved away"))
        self._changed.set()

    def _fail(self, exc: Exception) -> None:
        self._error = self._error or exc
        self._changed.set()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    async def _wait_for_change(self, timeout: float) -> None:
        self._changed.clear()
        timer = self._loop.call_later(timeout, self._changed.set)
        try:
            await self._changed.wait()
        finally:
            timer.cancel()
