"""
Durable calls: scripts whose effect a replica must have before the caller goes on.

WAIT blocks its connection until a replica has all that was written over it.  So calls
collect while a group of them is under way, and are sent together: one WAIT confirms
them all.  These connections carry nothing else, so that nothing else waits.

A script that was answered is never reported as failed: only whether a replica has it
may be unknown.  Without replicas no WAIT is sent: it would only time out.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from redis import exceptions

from kue.aio.coalesced_calls import CoalescedCalls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.store.redis.wire.connection import (
        Command,
        RedisConnection,
        RedisConnectionPool,
    )

#: Groups that may be under way at once.  The first calls of a burst must not make the
#: next ones wait for as long as a replica takes.
GROUPS = 4
#: Most calls in one group.
_GROUP_SIZE = 200
_REPLICAS: Command = ("INFO", "replication")
_UNANSWERED = object()


class _DurableCall:
    """One call, and its result so far."""

    __slots__ = ("command", "done", "is_confirmed", "reply")

    def __init__(self, command: Command) -> None:
        self.command = command
        self.reply: Any = _UNANSWERED
        self.is_confirmed = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class DurableCalls:
    """Calls to one node; each must be answered within *timeout* seconds."""

    def __init__(self, pool: RedisConnectionPool, *, timeout: float) -> None:
        self._pool = pool
        self._timeout = timeout
        self._waiting: list[_DurableCall] = []
        self._groups = CoalescedCalls(self._send_waiting, "kue-durable", limit=GROUPS)

    async def call(
        self, command: Command, wait_ms: int, deadline: float
    ) -> tuple[Any, bool]:
        """Return the reply, and whether a replica has what it changed."""
        call = _DurableCall(command)
        self._waiting.append(call)
        self._groups.start(wait_ms)
        try:
            async with asyncio.timeout_at(deadline):
                await call.done
        except TimeoutError:
            if call.reply is _UNANSWERED:
                raise
        if isinstance(call.reply, Exception):
            raise call.reply
        return call.reply, call.is_confirmed

    async def close(self) -> None:
        """Return once no call is under way; the pool must be closed already."""
        await self._groups.finish()

    async def _send_waiting(self, wait_ms: int) -> None:
        while self._waiting:
            group = self._waiting[:_GROUP_SIZE]
            del self._waiting[:_GROUP_SIZE]
            # Leave out calls whose callers have given up.
            group = [call for call in group if not call.done.done()]
            try:
                await self._send(group, wait_ms)
            finally:
                for call in group:
                    if call.reply is _UNANSWERED:
                        call.reply = exceptions.ConnectionError("it was not sent")
                    call.end()

    async def _send(self, group: Sequence[_DurableCall], wait_ms: int) -> None:
        loop = asyncio.get_running_loop()
        commands = [call.command for call in group]
        try:
            async with self._pool.connection(loop.time() + self._timeout) as connection:
                replicas = await self._run(connection, group, [*commands, _REPLICAS])
                group = _end_refused(group)
                if b"connected_slaves:0\r" in replicas or not group:
                    return
                limit = loop.time() + wait_ms / 1000 + self._timeout
                [count] = await connection.call([("WAIT", 1, wait_ms)], limit)
                for call in group:
                    call.is_confirmed = isinstance(count, int) and count > 0
        except (exceptions.RedisError, OSError) as exc:
            for call in group:
                if call.reply is _UNANSWERED:
                    call.reply = exc

    async def _run(
        self,
        connection: RedisConnection,
        group: Sequence[_DurableCall],
        commands: list[Command],
    ) -> bytes:
        """Send calls and store their replies; return INFO about the replicas."""
        loop = asyncio.get_running_loop()
        try:
            *_, replicas = await connection.call(commands, loop.time() + self._timeout)
        finally:
            # If the connection was lost, some may have been answered.
            for call, reply in zip(group, connection.replies, strict=False):
                call.reply = reply
        # A server that does not allow INFO may have replicas.
        return replicas if isinstance(replicas, bytes) else b""


def _end_refused(group: Sequence[_DurableCall]) -> list[_DurableCall]:
    """End the calls that were refused; return the others."""
    for call in group:
        if isinstance(call.reply, Exception):
            call.end()
    return [call for call in group if not call.done.done()]
