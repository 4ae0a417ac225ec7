"""
Durable calls: scripts whose effect a replica is to have before the caller goes on.

WAIT blocks its connection until a replica has all that was written over it.  So calls
collect while a group of them is on its way, and go together: one WAIT confirms them
all.  These connections carry nothing else, so that nothing else waits.

An answered script is never reported as a failure: only whether a replica has it may be
unknown.  Without any replica there is no WAIT at all, which would sleep in vain.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from redis import exceptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.store.redis.wire.connection import (
        Command,
        RedisConnection,
        RedisConnectionPool,
    )

#: Groups that may be on their way at once.  The first calls of a busy moment must not
#: keep the next ones waiting for as long as a replica is.
GROUPS = 4
#: Calls that travel together.
_MANY = 200
_REPLICAS: Command = ("INFO", "replication")
_UNANSWERED = object()


class _Call:
    """One call, and what is known of it so far."""

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
    """Calls to one node; each takes *patience* seconds at most to be answered."""

    def __init__(self, lines: RedisConnectionPool, *, patience: float) -> None:
        self._lines = lines
        self._patience = patience
        self._waiting: list[_Call] = []
        self._groups: set[asyncio.Task[None] | None] = set()

    async def call(
        self, command: Command, wait_ms: int, deadline: float
    ) -> tuple[Any, bool]:
        """Return the reply, and whether a replica has what it changed."""
        call = _Call(command)
        self._waiting.append(call)
        if len(self._groups) < GROUPS:
            task = asyncio.create_task(self._send_all(wait_ms), name="kue-durable")
            self._groups.add(task)
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
        """Return once nothing is on its way; the lines are closed already."""
        await asyncio.gather(*filter(None, self._groups), return_exceptions=True)

    async def _send_all(self, wait_ms: int) -> None:
        try:
            await self._send_waiting(wait_ms)
        finally:
            # At once, not by a callback: the next call must see that it needs another.
            self._groups.discard(asyncio.current_task())

    async def _send_waiting(self, wait_ms: int) -> None:
        while self._waiting:
            group = self._waiting[:_MANY]
            del self._waiting[:_MANY]
            # A caller that gave up does not wait for the answer.
            group = [call for call in group if not call.done.done()]
            try:
                await self._send(group, wait_ms)
            finally:
                for call in group:
                    if call.reply is _UNANSWERED:
                        call.reply = exceptions.ConnectionError("it was not sent")
                    call.end()

    async def _send(self, group: Sequence[_Call], wait_ms: int) -> None:
        loop = asyncio.get_running_loop()
        commands = [call.command for call in group]
        try:
            async with self._lines.line(loop.time() + self._patience) as line:
                replicas = await self._answer(line, group, [*commands, _REPLICAS])
                group = _let_go(group)
                if b"connected_slaves:0\r" in replicas or not group:
                    return
                limit = loop.time() + wait_ms / 1000 + self._patience
                [count] = await line.call([("WAIT", 1, wait_ms)], limit)
                for call in group:
                    call.is_confirmed = isinstance(count, int) and count > 0
        except (exceptions.RedisError, OSError) as exc:
            for call in group:
                if call.reply is _UNANSWERED:
                    call.reply = exc

    async def _answer(
        self, line: RedisConnection, group: Sequence[_Call], commands: list[Command]
    ) -> bytes:
        """Send calls and note their replies; return what is known of replicas."""
        loop = asyncio.get_running_loop()
        try:
            *_, replicas = await line.call(commands, loop.time() + self._patience)
        finally:
            # Where the connection was lost on the way, some are answered.
            for call, reply in zip(group, line.replies, strict=False):
                call.reply = reply
        # A server that keeps it to itself may have some.
        return replicas if isinstance(replicas, bytes) else b""


def _let_go(group: Sequence[_Call]) -> list[_Call]:
    """End the calls that were refused; return the others."""
    for call in group:
        if isinstance(call.reply, Exception):
            call.end()
    return [call for call in group if not call.done.done()]
