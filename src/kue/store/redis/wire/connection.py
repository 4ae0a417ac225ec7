"""
Lines to Redis: connections that carry one call at a time.

redis-py makes the connections (address, TLS, password, database) and hands them over.
What it does around each call (streams, locks, metrics, events) took longer than all the
rest of the call, so from then on hiredis reads what the transport receives; see
docs/decisions/0018-lines-to-redis.md.

A line whose call was cut short, by time, by an error or by being cancelled, is given
up: the answer that may still come would be taken for that of the next call.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import hiredis
from redis import exceptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

#: A command and its arguments.
Command = tuple[Any, ...]

NOT_YET = object()
#: Answers that mean something to us, by how they begin.  redis-py knows them too, but
#: not in all versions, and not in public.
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

    Deadlines are times of the event loop's clock; opening a line is part of a call.
    """

    def __init__(self, connect: Callable[[], Awaitable[Any]], limit: int) -> None:
        self._connect = connect
        self._idle: list[RedisConnection] = []
        self._open: set[RedisConnection] = set()
        self._places = asyncio.Semaphore(limit)

    async def call(self, command: Command, deadline: float) -> Any:
        """Send a command; return the reply as Redis gave it, or raise what it says."""
        [reply] = await self.call_all([command], deadline)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def call_all(self, commands: Sequence[Command], deadline: float) -> list[Any]:
        """Send commands together; errors that Redis answers with are among replies."""
        async with self._places:
            line = self._take() or await self._new(deadline)
            try:
                return await line.call(commands, deadline)
            finally:
                self._put_back(line)

    @asynccontextmanager
    async def line(self, deadline: float) -> AsyncIterator[RedisConnection]:
        """Lend a connection for several calls in a row."""
        async with self._places:
            line = self._take() or await self._new(deadline)
            try:
                yield line
            finally:
                self._put_back(line)

    def drop_idle(self) -> None:
        """Have the next calls connect again: the master may be another server now."""
        for line in self._idle:
            line.abort()

    async def close(self) -> None:
        """Close every connection, and what is on its way over one."""
        for line in list(self._open):
            await line.close()
        self._open.clear()

    def _take(self) -> RedisConnection | None:
        while self._idle:
            line = self._idle.pop()
            if line.is_open:
                return line
            self._open.discard(line)
        return None

    def _put_back(self, line: RedisConnection) -> None:
        if line.is_open:
            self._idle.append(line)
        else:
            self._open.discard(line)

    async def _new(self, deadline: float) -> RedisConnection:
        async with asyncio.timeout_at(deadline):
            line = RedisConnection(await self._connect())
        self._open.add(line)
        return line


def taken_over(
    connection: Any, protocol: asyncio.Protocol
) -> tuple[asyncio.StreamWriter, hiredis.Reader]:
    """Take a connection from redis-py's hands: *protocol* gets what it receives."""
    writer: asyncio.StreamWriter = connection._writer
    connection._writer = connection._reader = None
    writer.transport.set_protocol(protocol)
    reader = hiredis.Reader(
        protocolError=exceptions.InvalidResponse,
        replyError=_error,
        notEnoughData=NOT_YET,
    )
    return writer, reader


def _error(text: str) -> Exception:
    """Return what an error that Redis answers with is to be raised as."""
    code, _, message = text.partition(" ")
    kind = _ERRORS.get(code)
    return exceptions.ResponseError(text) if kind is None else kind(message)


class RedisConnection(asyncio.Protocol):
    """One connection, from redis-py's hands to its end."""

    def __init__(self, connection: Any) -> None:
        self._loop = asyncio.get_running_loop()
        # Kept: in some versions of Python a writer that is forgotten closes all.
        self._writer, self._reader = taken_over(connection, self)
        self._transport = self._writer.transport
        self.is_open = True
        self._is_lost = asyncio.Event()
        #: What the call under way waits for, and the replies it got so far.
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
        except BaseException:
            self.abort()
            raise
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Return once the connection is closed."""
        self.abort()
        await self._is_lost.wait()

    # -- what the transport calls ----------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not NOT_YET:
                self.replies.append(reply)
        except exceptions.InvalidResponse as exc:
            self._fail(exc)
        if self._answer is None or self._answer.done():
            # What nobody asked for can only be the server's last words.
            self.abort()
        elif len(self.replies) >= self._wanted:
            self._answer.set_result(self.replies)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._is_lost.set()
        self._fail(exceptions.ConnectionError(str(exc or "the server hung up")))

    # -- endings ---------------------------------------------------------------

    def _expire(self) -> None:
        self._fail(TimeoutError("it did not answer in time"))

    def _fail(self, exc: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc)

    def abort(self) -> None:
        """Give the connection up at once."""
        self.is_open = False
        self._transport.abort()
