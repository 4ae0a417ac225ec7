"""
Concurrent large reads: limits on how many lists of jobs are built and sent at a time.

A list may have some megabytes, and several times that while it is encoded as JSON.  So
only a few are served at once; the others wait for their turn, and are refused if that
takes too long.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import Response

from kue.http.framework.problem import Refused, try_later

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Message, Receive, Scope, Send

#: Requests that may wait for their turn, and for how many seconds.
MAX_WAITING = 100
WAIT_SECONDS = 10.0
#: Seconds for sending; a client that has not read by then is cut off.
SEND_SECONDS = 30.0
#: Bytes sent at once: servers wait for slow clients before a part, but not within one.
PART_BYTES = 64 * 1024


class ReadLimit:
    """Lets *at_once* requests through at the same time."""

    def __init__(self, at_once: int, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._slots = asyncio.Semaphore(at_once)
        self._wait_seconds = wait_seconds
        self._waiting = 0

    async def answer(self, make: Callable[[], Awaitable[Response]]) -> Response:
        """Call *make* in turn; its slot is released when the response has been sent."""
        await self._take()
        try:
            response = await make()
        except BaseException:
            self._slots.release()
            raise
        return _Held(response, self._slots.release)

    async def _take(self) -> None:
        if self._waiting >= MAX_WAITING:
            raise _too_many()
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise _too_many() from None
        finally:
            self._waiting -= 1


class _Held(Response):
    """A response that holds a slot until it is sent, or its client is too slow."""

    def __init__(self, response: Response, release: Callable[[], None]) -> None:
        self._response = response
        self.status_code = response.status_code
        self.raw_headers = response.raw_headers
        self._release = release

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            # Servers close the connection of an unfinished response.
            with suppress(TimeoutError):
                async with asyncio.timeout(SEND_SECONDS):
                    await self._response(scope, receive, _in_parts(send))
        finally:
            self._release()


def _in_parts(send: Send) -> Send:
    """Return a *send* that sends a large body part by part."""

    async def send_parts(message: Message) -> None:
        rest = memoryview(message.get("body", b""))
        while len(rest) > PART_BYTES:
            part, rest = bytes(rest[:PART_BYTES]), rest[PART_BYTES:]
            await send({**message, "body": part, "more_body": True})
        await send({**message, "body": bytes(rest)} if rest else message)

    return send_parts


def _too_many() -> Refused:
    return try_later(
        HTTPStatus.TOO_MANY_REQUESTS,
        "too many lists and searches are under way; try again in a moment",
    )
