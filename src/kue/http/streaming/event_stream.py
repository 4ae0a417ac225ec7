"""Server-sent events: the response that a stream is, while its client may read it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.responses import Response

from kue.http.auth.access import admit
from kue.http.framework.problem import refused, try_later
from kue.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from contextlib import AbstractContextManager

    from starlette.requests import HTTPConnection
    from starlette.types import Receive, Scope, Send

    from kue.http.auth.access import Guard
    from kue.http.auth.roles import Scope as AccessScope
    from kue.http.streaming.broadcast import EventBroadcast

    #: Sends a part of the stream, and what calls it with all parts.
    SendPart: TypeAlias = Callable[[bytes], Awaitable[None]]
    Write: TypeAlias = Callable[[SendPart], Coroutine[Any, Any, None]]

logger = logging.getLogger(__name__)

MEDIA_TYPE = "text/event-stream"
HEADERS = {
    "Cache-Control": "no-store",
    # Asks proxies not to buffer the response.
    "X-Accel-Buffering": "no",
}
#: Milliseconds after which a browser that lost its connection reconnects.
RETRY = b"retry: 1000\n\n"
#: A comment, which clients ignore; proxies see an active connection.
KEEP_ALIVE = b":\n\n"


class EventStream(Response):
    """
    A response that lasts until the client disconnects or the stream ends.

    Or until *allowed* returns: the client has lost its access.  *begin* returns a
    context that lasts as long as the stream, with what writes it.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        begin: Callable[[], AbstractContextManager[Write]],
        allowed: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        # Response.__init__ would set a content length of 0.
        self.status_code = HTTPStatus.OK.value
        self.background = None
        self.init_headers(HEADERS)
        self._begin = begin
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await self._start(send)
        else:
            with self._begin() as write:
                await self._start(send)
                await _send_part(send, RETRY)
                await while_all(
                    write(partial(_send_part, send)),
                    until(receive, "http.disconnect"),
                    self._allowed(),
                )
        await _send_part(send, b"", is_last=True)

    async def _start(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )


async def _send_part(send: Send, part: bytes, *, is_last: bool = False) -> None:
    # Servers may raise when the client is gone; that is how most streams end.
    with suppress(OSError):
        await send(
            {"type": "http.response.body", "body": part, "more_body": not is_last}
        )


async def until(receive: Receive, disconnect: str) -> None:
    """Return once the client has disconnected; its messages are ignored."""
    while (await receive())["type"] != disconnect:
        pass


async def while_all(*works: Coroutine[Any, Any, object]) -> None:
    """Run all until one returns; the others are cancelled."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


def check_room(broadcast: EventBroadcast) -> None:
    """Refuse a client if there are as many streams as the server may have."""
    if broadcast.is_full:
        raise try_later(
            HTTPStatus.SERVICE_UNAVAILABLE, "too many streams are open already"
        )


async def while_allowed(
    seconds: float, guard: Guard, connection: HTTPConnection, scope: AccessScope | None
) -> None:
    """
    Return once the client has lost its access: its session has ended, say.

    That is checked every so many *seconds*.
    """
    while True:
        await asyncio.sleep(seconds)
        try:
            await admit(guard, connection, scope)
        except StoreError:
            # This cannot be checked now.
            continue
        except Exception as exc:
            # A client that reconnects gets the error.
            if refused(exc) is None:
                logger.exception("the guard of a stream failed")
            return
