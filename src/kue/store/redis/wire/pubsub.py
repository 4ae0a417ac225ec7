"""
A connection that listens to channels.

As in `lines`, redis-py makes the connection and hands it over, and hiredis reads what
the transport receives.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, cast

import hiredis
from redis import exceptions

from kue.store.redis.wire.connection import NOT_YET, taken_over

#: Bytes that wait to be heard before no more is read; the rest waits in Redis.
_MAX_BYTES = 1024 * 1024


class PubSub(asyncio.Protocol):
    """Messages of some sharded channels, from `subscribe` until `close`."""

    def __init__(self, connection: Any) -> None:
        self._loop = asyncio.get_running_loop()
        # Kept: in some versions of Python a writer that is forgotten closes all.
        self._writer, self._reader = taken_over(connection, self)
        self._transport = cast("asyncio.Transport", self._writer.transport)
        #: How many subscriptions Redis has yet to confirm.
        self._unconfirmed = 0
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._is_paused = False
        self._error: Exception | None = None
        self._is_lost = asyncio.Event()
        #: Done when there is something new.
        self._news: asyncio.Future[None] | None = None

    async def subscribe(self, channels: tuple[str, ...]) -> None:
        """Return once Redis has confirmed: from then on nothing is missed."""
        self._unconfirmed = len(channels)
        command: Any = ("SSUBSCRIBE", *channels)
        self._transport.write(hiredis.pack_command(command))
        while self._unconfirmed:
            self._check()
            await self._hear_news(None)

    async def message(self, timeout: float) -> bytes | None:
        """Return the next message; None if none comes within *timeout* seconds."""
        if not self._waiting:
            self._check()
            await self._hear_news(timeout)
            if not self._waiting:
                self._check()
                return None
        message = self._waiting.popleft()
        self._bytes -= len(message)
        if self._is_paused and not self._waiting and not self._transport.is_closing():
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
            while (reply := self._reader.gets()) is not NOT_YET:
                self._take(reply)
                self._tell()
        except exceptions.InvalidResponse as exc:
            self._error = exc
            self._tell()
        is_full = self._bytes >= _MAX_BYTES and not self._is_paused
        if is_full and not self._transport.is_closing():
            self._is_paused = True
            self._transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._error is None:
            text = str(exc or "the server hung up")
            self._error = exceptions.ConnectionError(text)
        self._is_lost.set()
        self._tell()

    # -- small things ----------------------------------------------------------

    def _take(self, reply: Any) -> None:
        if isinstance(reply, Exception):
            self._error = reply
        elif reply[0] == b"smessage":
            self._waiting.append(reply[2])
            self._bytes += len(reply[2])
        elif reply[0] == b"ssubscribe":
            self._unconfirmed -= 1
        elif reply[0] == b"sunsubscribe":
            # A node of a Cluster says so when the slot has moved to another.
            self._error = exceptions.ConnectionError("the slot has moved away")

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    async def _hear_news(self, timeout: float | None) -> None:
        news = self._news = self._loop.create_future()
        timer = None if timeout is None else self._loop.call_later(timeout, self._tell)
        try:
            await news
        finally:
            self._news = None
            if timer is not None:
                timer.cancel()

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
