"""
Event streams: server-sent events, and the same over a WebSocket.

A stream begins with ``store``, which reports whether the store is up and is sent again
when that changes.  Events of jobs follow; ``lagged`` reports that some are missing.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
from starlette.responses import Response
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from kue.http.auth.access import admit
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import Refused, refused, try_later
from kue.http.security.csrf import NOT_ALLOWED
from kue.http.streaming.client_buffer import EventFilter
from kue.model.errors import StoreError
from kue.model.events import Kind
from kue.model.names import Name

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from starlette.requests import HTTPConnection, Request
    from starlette.routing import BaseRoute
    from starlette.types import Receive, Scope, Send
    from starlette.websockets import WebSocket

    from kue.http.auth.access import Guard
    from kue.http.streaming.broadcast import EventBroadcast
    from kue.http.streaming.client_buffer import ClientBuffer

logger = logging.getLogger(__name__)

section = Section("events", "Live events of jobs.")

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

#: The close code of WebSockets for "try again later".
NOT_NOW = 1013
#: Bytes of the reason for a close, by the protocol.
MAX_REASON = 123

EventId = Annotated[str, msgspec.Meta(max_length=64)]
Stream = Annotated[
    Any,
    msgspec.Meta(
        description="Endless server-sent events. The data of each is a JSON "
        "object: id, kind, job_id, type, at, attempt, detail.",
        extra_json_schema={"type": "string"},
    ),
]


class Watched(Input, frozen=True):
    """Which events to send; all by default."""

    types: Annotated[list[Name], msgspec.Meta(max_length=200)] = []
    kinds: Annotated[list[Kind], msgspec.Meta(max_length=50)] = []
    job_id: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    #: Resume after this event; the header Last-Event-ID takes precedence.
    last_event_id: EventId = ""

    @property
    def event_filter(self) -> EventFilter:
        return EventFilter(frozenset(self.types), frozenset(self.kinds), self.job_id)


@section.get("/events", media_type=MEDIA_TYPE)
async def stream(context: RequestContext, query: Watched) -> Stream:
    """
    A stream of what happens to jobs.

    The stream stays open while the store is down, and reports that (``event: store``).
    A client that was too slow, or disconnected for too long, receives
    ``event: lagged`` and should reload what it shows. Data and results of jobs are not
    included.
    """
    broadcast: EventBroadcast = context.request.app.state.live
    _check_room(broadcast)
    last_id = context.request.headers.get("last-event-id", query.last_event_id)
    allowed = partial(_while_allowed, broadcast, context.guard, context.request)
    return EventStream(broadcast, query.event_filter, last_id, allowed)


class EventStream(Response):
    """
    A response that lasts until the client disconnects or the server stops.

    Or until *allowed* returns: the client has lost its access.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        broadcast: EventBroadcast,
        event_filter: EventFilter,
        last_id: str,
        allowed: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        # Response.__init__ would set a content length of 0.
        self.status_code = HTTPStatus.OK.value
        self.background = None
        self.init_headers(HEADERS)
        self._broadcast = broadcast
        self._event_filter = event_filter
        self._last_id = last_id
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await self._start(send)
        else:
            with self._broadcast.join(self._event_filter, self._last_id) as buffer:
                await self._start(send)
                await _while_all(
                    _write(buffer, send),
                    _until(receive, "http.disconnect"),
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


def _check_room(broadcast: EventBroadcast) -> None:
    if broadcast.is_full:
        raise try_later(
            HTTPStatus.SERVICE_UNAVAILABLE, "too many streams are open already"
        )


async def _write(buffer: ClientBuffer, send: Send) -> None:
    await _send_part(send, RETRY)
    while buffer.is_open:
        messages = await buffer.take()
        part = b"".join([message.frame for message in messages])
        await _send_part(send, part or KEEP_ALIVE)


async def _send_part(send: Send, part: bytes, *, is_last: bool = False) -> None:
    # Servers may raise when the client is gone; that is how most streams end.
    with suppress(OSError):
        await send(
            {"type": "http.response.body", "body": part, "more_body": not is_last}
        )


async def _until(receive: Receive, disconnect: str) -> None:
    while (await receive())["type"] != disconnect:
        pass


async def _while_all(*works: Coroutine[Any, Any, None]) -> None:
    """Run all until one returns; the others are cancelled."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


async def _while_allowed(
    broadcast: EventBroadcast, guard: Guard, connection: HTTPConnection
) -> None:
    """Return once the client has lost its access: its session has ended, say."""
    [operation] = section.operations
    while True:
        await asyncio.sleep(broadcast.limits.recheck)
        try:
            await admit(guard, connection, operation.scope)
        except StoreError:
            # This cannot be checked now.
            continue
        except Exception as exc:
            # A client that reconnects gets the error.
            if refused(exc) is None:
                logger.exception("the guard of a stream failed")
            return


# -- WebSocket -----------------------------------------------------------------


def routes(guard: Guard, broadcast: EventBroadcast) -> list[BaseRoute]:
    """Return the route to the same events over a WebSocket."""

    async def listen(websocket: WebSocket) -> None:
        # Accepted even when refused: browsers do not show why a handshake failed.
        await websocket.accept()
        with suppress(WebSocketDisconnect):
            try:
                query = await _admitted(websocket, guard, broadcast)
            except Exception as exc:
                if (problem := refused(exc)) is None:
                    raise
                await _refuse(websocket, problem)
            else:
                with broadcast.join(query.event_filter, query.last_event_id) as buffer:
                    await _while_all(
                        _send_messages(buffer, websocket),
                        # Messages of the client are ignored.
                        _until(websocket.receive, "websocket.disconnect"),
                        _close_without_access(broadcast, guard, websocket),
                    )

    return [WebSocketRoute("/events/ws", listen, name="events_listen")]


async def _admitted(
    websocket: WebSocket, guard: Guard, broadcast: EventBroadcast
) -> Watched:
    """Return the query of a client, if it has access."""
    [operation] = section.operations
    await admit(guard, websocket, operation.scope)
    _check_room(broadcast)
    # It reads only what WebSockets have, too.
    arguments = operation.arguments(cast("Request", websocket), b"")
    query: Watched = arguments["query"]
    return query


async def _refuse(websocket: WebSocket, problem: Refused) -> None:
    is_later = problem.status is HTTPStatus.SERVICE_UNAVAILABLE
    reason = f"{problem.field}: {problem.detail}" if problem.field else problem.detail
    await websocket.close(
        NOT_NOW if is_later else NOT_ALLOWED,
        reason.encode()[:MAX_REASON].decode(errors="ignore"),
    )


async def _send_messages(buffer: ClientBuffer, websocket: WebSocket) -> None:
    with suppress(WebSocketDisconnect):
        while buffer.is_open:
            for message in await buffer.take():
                await websocket.send_text(message.text)
        await websocket.close(NOT_NOW, "the server is stopping")


async def _close_without_access(
    broadcast: EventBroadcast, guard: Guard, websocket: WebSocket
) -> None:
    await _while_allowed(broadcast, guard, websocket)
    with suppress(WebSocketDisconnect):
        await websocket.close(NOT_ALLOWED, "you no longer have access")
