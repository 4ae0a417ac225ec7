"""
Connections to Redis, and pools of them: each carries one call at a time.

redis-py makes the connections (address, TLS, password, database) and hands them over.
What it does around each call (streams, locks, metrics, events) took longer than the
rest of the call, so from then on hiredis reads what the transport receives; see
docs/decisions/0018-lines-to-redis.md.

A connection whose call was cut short, by a timeout, an error or cancellation, is
closed: a late reply would be taken for that of the next call.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import hiredis
from redis import exceptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

#: A command and its arguments.
Command = tuple[Any, ...]

INCOMPLETE = object()
#: A note on errors after which it is not known whether the server got the commands.
SENT = "the commands had been sent"
#: Error replies that are handled, by their first word.  redis-py knows them too, but
#: not in all versions, and not in its public API.
_ERRORS: dict[str, type[exceptions.ResponseError | exceptions.ConnectionError]] = {
    "ASK": exceptions.AskError,
    "CLUSTERDOWN": exceptions.ClusterDownError,
    "LOADING": exceptions.BusyLoadingError,
    "MASTERDOWN": exceptions.MasterDownError,
    "MOVED": exceptions.MovedError,
    "NOAUTH": exceptions.AuthenticationError,
    "NOPERM": exceptions.NoPermissionError,
    "NOSCRIPT": exceptions.NoScriptError,
    "OOM": exceptions.OutOfMemoryError,
    "READONLY": exceptions.ReadOnlyError,
    "TRYAGAIN": exceptions.TryAgainError,
    "WRONGPASS": exceptions.AuthenticationError,
}


class RedisConnectionPool:
    """
    Connections to one node for one purpose, at most *limit* of them.

    Deadlines are times of the event loop's clock; connecting is part of a call.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[Any]],
        limit: int,
        sharing: RedisConnectionPool | None = None,
    ) -> None:
        """*sharing* is a pool to the same node: idle connections serve both."""
        self._connect = connect
        self._idle: list[RedisConnection] = sharing._idle if sharing else []
        self._open: set[RedisConnection] = sharing._open if sharing else set()
        self._permits = asyncio.Semaphore(limit)

    async def call(self, commands: Sequence[Command], deadline: float) -> list[Any]:
        """Send commands together; return the replies, or raise the first error."""
        async with self._permits:
            connection = self._take() or await self._connect_by(deadline)
            try:
                replies = await connection.call(commands, deadline)
            finally:
                self._put_back(connection)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    @asynccontextmanager
    async def connection(self, deadline: float) -> AsyncIterator[RedisConnection]:
        """Lend a connection for several calls in a row."""
        async with self._permits:
            connection = self._take() or await self._connect_by(deadline)
            try:
                yield connection
            finally:
                self._put_back(connection)

    def drop_idle(self) -> None:
        """Make the next calls reconnect: the master may be another server now."""
        for connection in self._idle:
            connection.abort()

    async def close(self) -> None:
        """Close every connection, also those with a call under way."""
        for connection in list(self._open):
            await connection.close()
        self._open.clear()

    def _take(self) -> RedisConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
            self._open.discard(connection)
        return None

    def _put_back(self, connection: RedisConnection) -> None:
        if connection.is_open:
            self._idle.append(connection)
        else:
            self._open.discard(connection)

    async def _connect_by(self, deadline: float) -> RedisConnection:
        async with asyncio.timeout_at(deadline):
            connection = RedisConnection(await self._connect())
        self._open.add(connection)
        return connection


class RedisProtocol(asyncio.Protocol):
    """A connection taken over from redis-py: *_reader* parses what it receives."""

    def __init__(self, connection: Any) -> None:
        self._loop = asyncio.get_running_loop()
        # Kept: some versions of Python close the connection with an unused writer.
        self._writer: asyncio.StreamWriter = connection._writer
        connection._writer = connection._reader = None
        self._transport = cast("asyncio.Transport", self._writer.transport)
        self._transport.set_protocol(self)
        self._reader = hiredis.Reader(
            protocolError=exceptions.InvalidResponse,
            replyError=_error,
            notEnoughData=INCOMPLETE,
        )
        self.is_open = True
        self._is_lost = asyncio.Event()

    def abort(self) -> None:
        """Close the connection at once."""
        self.is_open = False
        self._transport.abort()

    async def close(self) -> None:
        """Return once the connection is closed."""
        self.abort()
        await self._is_lost.wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._is_lost.set()
        self._fail(
            exceptions.ConnectionError(str(exc or "the server closed the connection"))
        )

    def _fail(self, exc: Exception) -> None:
        """Have the caller that waits raise *exc*."""
        raise NotImplementedError


def _error(text: str) -> Exception:
    """Return the exception for an error reply."""
    code, _, message = text.partition(" ")
    kind = _ERRORS.get(code)
    return exceptions.ResponseError(text) if kind is None else kind(message)


class RedisConnection(RedisProtocol):
    """A connection for commands."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        #: What the current call waits for, and the replies it has so far.
        self._answer: asyncio.Future[list[Any]] | None = None
        self.replies: list[Any] = []
        self._wanted = 0

    async def call(self, commands: Sequence[Command], deadline: float) -> list[Any]:
        """Send commands and return their replies."""
        answer: asyncio.Future[list[Any]] = self._loop.create_future()
        self._answer = answer
        self.replies, self._wanted = [], len(commands)
        timer = self._loop.call_at(deadline, self._expire)
        try:
            self._transport.write(b"".join(map(hiredis.pack_command, commands)))
            return await answer
        except BaseException as exc:
            self.abort()
            # It may have arrived.
            exc.add_note(SENT)
            raise
        finally:
            timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not INCOMPLETE:
                self.replies.append(reply)
        except exceptions.InvalidResponse as exc:
            self._fail(exc)
        if self._answer is None or self._answer.done():
            # An unexpected reply is an error that the server sends before it closes.
            self.abort()
        elif len(self.replies) >= self._wanted:
            self._answer.set_result(self.replies)

    def _expire(self) -> None:
        self._fail(TimeoutError("it did not answer in time"))

    def _fail(self, exc: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc)
