"""
Publish and subscribe: a connection that is subscribed to channels.

As in `connection`, redis-py makes the connection and hands it over, and hiredis reads
what the transport receives.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

import hiredis
from redis import exceptions

from kue.store.redis.wire.connection import INCOMPLETE, take_over

#: Unread bytes after which reading stops; the rest waits in Redis.
_MAX_BYTES = 1024 * 1024


class PubSub(asyncio.Protocol):
    """Receives messages of sharded channels, from `subscribe` until `close`."""

    def __init__(self, connection: Any) -> None:
        self._loop = asyncio.get_running_loop()
        # Kept: some versions of Python close the connection with an unused writer.
        self._writer, self._reader = take_over(connection, self)
        self._transport = cast("asyncio.Transport", self._writer.transport)
        #: Subscriptions that Redis has yet to confirm.
        self._unconfirmed = 0
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._is_paused = False
        self._error: Exception | None = None
        self._is_lost = asyncio.Event()
        #: Done when something was received, or the connection was lost.
        self._changed: asyncio.Future[None] | None = None

    async def subscribe(self, channels: tuple[str, ...]) -> None:
        """Subscribe; return once Redis has confirmed: no later message is missed."""
        self._unconfirmed = len(channels)
        command: Any = ("SSUBSCRIBE", *channels)
        self._transport.write(hiredis.pack_command(command))
        while self._unconfirmed:
            self._check()
            await self._wait_for_change(None)

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

    async def close(self) -> None:
        """Return once the connection is closed."""
        self._transport.abort()
        await self._is_lost.wait()

    # -- what the transport calls ----------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not INCOMPLETE:
                self._handle(reply)
                self._notify()
        except exceptions.InvalidResponse as exc:
            self._error = exc
            self._notify()
        is_full = self._bytes >= _MAX_BYTES and not self._is_paused
        if is_full and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._error is None:
            text = str(exc or "the server closed the connection")
            self._error = exceptions.ConnectionError(text)
        self._is_lost.set()
        self._notify()

    # -- helpers ---------------------------------------------------------------

    def _handle(self, reply: Any) -> None:
        if isinstance(reply, Exception):
            self._error = reply
        elif reply[0] == b"smessage":
            self._messages.append(reply[2])
            self._bytes += len(reply[2])
        elif reply[0] == b"ssubscribe":
            self._unconfirmed -= 1
        elif reply[0] == b"sunsubscribe":
            # Sent by a node of a Cluster when the slot has moved to another.
            self._error = exceptions.ConnectionError("the slot has moved away")

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    async def _wait_for_change(self, timeout: float | None) -> None:
        changed = self._changed = self._loop.create_future()
        timer = (
            None if timeout is None else self._loop.call_later(timeout, self._notify)
        )
        try:
            await changed
        finally:
            self._changed = None
            if timer is not None:
                timer.cancel()

    def _notify(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
