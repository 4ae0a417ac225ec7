"""
Event streams: server-sent events, and the same over a WebSocket.

A stream begins with ``store``, which reports whether the store is up and is sent again
when that changes.  Events of jobs follow; ``lagged`` reports that some are missing.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from kue.http.auth.access import admit
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import Refused, refused
from kue.http.security.csrf import NOT_ALLOWED
from kue.http.streaming.client_buffer import EventFilter
from kue.http.streaming.event_stream import (
    KEEP_ALIVE,
    MEDIA_TYPE,
    EventStream,
    check_room,
    until,
    while_all,
    while_allowed,
)
from kue.model.events import Kind
from kue.model.names import Name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.requests import HTTPConnection, Request
    from starlette.routing import BaseRoute
    from starlette.websockets import WebSocket

    from kue.http.auth.access import Guard
    from kue.http.streaming.broadcast import EventBroadcast
    from kue.http.streaming.client_buffer import ClientBuffer
    from kue.http.streaming.event_stream import SendPart, Write

section = Section("events", "Live events of jobs.")

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
    check_room(broadcast)
    last_id = context.request.headers.get("last-event-id", query.last_event_id)
    allowed = partial(_while_allowed, broadcast, context.guard, context.request)
    return EventStream(partial(_join, broadcast, query.event_filter, last_id), allowed)


@contextmanager
def _join(
    broadcast: EventBroadcast, event_filter: EventFilter, last_id: str
) -> Iterator[Write]:
    with broadcast.join(event_filter, last_id) as buffer:
        yield partial(_write, buffer)


async def _write(buffer: ClientBuffer, send_part: SendPart) -> None:
    while buffer.is_open:
        messages = await buffer.take()
        part = b"".join([message.frame for message in messages])
        await send_part(part or KEEP_ALIVE)


async def _while_allowed(
    broadcast: EventBroadcast, guard: Guard, connection: HTTPConnection
) -> None:
    [operation] = section.operations
    await while_allowed(broadcast.limits.recheck, guard, connection, operation.scope)


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
                    await while_all(
                        _send_messages(buffer, websocket),
                        # Messages of the client are ignored.
                        until(websocket.receive, "websocket.disconnect"),
                        _close_without_access(broadcast, guard, websocket),
                    )

    return [WebSocketRoute("/events/ws", listen, name="events_listen")]


async def _admitted(
    websocket: WebSocket, guard: Guard, broadcast: EventBroadcast
) -> Watched:
    """Return the query of a client, if it has access."""
    [operation] = section.operations
    await admit(guard, websocket, operation.scope)
    check_room(broadcast)
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
