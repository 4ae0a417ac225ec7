"""
What happens, as it happens: server-sent events, and the same over a WebSocket.

A stream begins with ``store``, which says whether the store is there and is told again
when that changes.  Events of jobs follow; ``lagged`` says that some are missing.
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
from kue.http.framework.operations import RequestContext, Section
from kue.http.framework.problem import RETRY_AFTER, Refused, refused
from kue.http.security.csrf import NOT_ALLOWED
from kue.http.streaming.client_buffer import EventFilter
from kue.model.errors import StoreError
from kue.model.events import Kind

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

section = Section("events", "What happens, as it happens.")

MEDIA_TYPE = "text/event-stream"
HEADERS = {
    "Cache-Control": "no-store",
    # Proxies that collect an answer before they pass it on are asked not to.
    "X-Accel-Buffering": "no",
}
#: Milliseconds after which a browser that lost its connection is to come back.
RETRY = b"retry: 1000\n\n"
#: A comment, which clients ignore and proxies take for life.
KEEP_ALIVE = b":\n\n"

#: The close code of WebSockets for what is not possible now.
NOT_NOW = 1013
#: Bytes of the reason for a close, as the protocol has it.
MAX_REASON = 123

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
EventId = Annotated[str, msgspec.Meta(max_length=64)]
Stream = Annotated[
    Any,
    msgspec.Meta(
        description="Server-sent events without end. The data of each is a JSON "
        "object: id, kind, job_id, type, at, attempt, detail.",
        extra_json_schema={"type": "string"},
    ),
]


class Watched(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which events to tell; all of them, if nothing is said."""

    types: Annotated[list[Name], msgspec.Meta(max_length=200)] = []
    kinds: Annotated[list[Kind], msgspec.Meta(max_length=50)] = []
    job_id: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    #: Go on after this event; the header Last-Event-ID says it too, and goes first.
    last_event_id: EventId = ""

    @property
    def wish(self) -> EventFilter:
        return EventFilter(frozenset(self.types), frozenset(self.kinds), self.job_id)


@section.get("/events", media_type=MEDIA_TYPE)
async def stream(call: RequestContext, query: Watched) -> Stream:
    """
    What happens to jobs, as it happens.

    The stream stays open while the store is away, and says so (``event: store``). A
    client that was too slow, or away for too long, is told so (``event: lagged``) and
    should read anew what it shows. Data and results of jobs are not told.
    """
    live: EventBroadcast = call.request.app.state.live
    if live.is_full:
        raise Refused(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "there are too many streams open already",
            headers={"Retry-After": RETRY_AFTER},
        )
    last_id = call.request.headers.get("last-event-id", query.last_event_id)
    allowed = partial(_while_allowed, live, call.guard, call.request)
    return EventStream(live, query.wish, last_id, allowed)


class EventStream(Response):
    """
    An answer that goes on until the client leaves or the server stops.

    Or until *allowed* returns: the client may no longer listen.
    """

    media_type = MEDIA_TYPE

    def __init__(
        self,
        live: EventBroadcast,
        wish: EventFilter,
        last_id: str,
        allowed: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        # Response.__init__ would say that it has no content.
        self.status_code = HTTPStatus.OK.value
        self.background = None
        self.init_headers(HEADERS)
        self._live = live
        self._wish = wish
        self._last_id = last_id
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "HEAD":
            await self._start(send)
        else:
            with self._live.join(self._wish, self._last_id) as reader:
                await self._start(send)
                await _while_all(_write(reader, send), _left(receive), self._allowed())
        await _send_part(send, b"", is_last=True)

    async def _start(self, send: Send) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )


async def _write(reader: ClientBuffer, send: Send) -> None:
    await _send_part(send, RETRY)
    while reader.is_open:
        messages = await reader.take()
        part = b"".join([message.frame for message in messages])
        await _send_part(send, part or KEEP_ALIVE)


async def _send_part(send: Send, part: bytes, *, is_last: bool = False) -> None:
    # Servers may raise when the client is gone; that is how most streams end.
    with suppress(OSError):
        await send(
            {"type": "http.response.body", "body": part, "more_body": not is_last}
        )


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _while_all(*works: Coroutine[Any, Any, None]) -> None:
    """Run all until one returns; the others are cancelled."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


async def _while_allowed(
    live: EventBroadcast, guard: Guard, connection: HTTPConnection
) -> None:
    """Return once the client may no longer listen: its session has ended, say."""
    [operation] = section.operations
    while True:
        await asyncio.sleep(live.bounds.recheck)
        try:
            await admit(guard, connection, operation.scope)
        except StoreError:
            # Nobody can tell now.
            continue
        except Exception as exc:
            # Who comes again is told what is wrong.
            if refused(exc) is None:
                logger.exception("the guard of a stream failed")
            return


# -- WebSocket -----------------------------------------------------------------


def routes(guard: Guard, live: EventBroadcast) -> list[BaseRoute]:
    """Return the way to the same events over a WebSocket."""

    async def listen(websocket: WebSocket) -> None:
        # Accepted even when refused: of a handshake that fails browsers tell nothing.
        await websocket.accept()
        with suppress(WebSocketDisconnect):
            try:
                query = await _admitted(websocket, guard, live)
            except Exception as exc:
                if (known := refused(exc)) is None:
                    raise
                await _refuse(websocket, known)
            else:
                with live.join(query.wish, query.last_event_id) as reader:
                    await _while_all(
                        _speak(reader, websocket),
                        _hung_up(websocket),
                        _dismiss(live, guard, websocket),
                    )

    return [WebSocketRoute("/events/ws", listen, name="events_listen")]


async def _admitted(
    websocket: WebSocket, guard: Guard, live: EventBroadcast
) -> Watched:
    """
    Return what the client wants to hear.

    Raises:
        Refused: It may not, or not now, or does not make sense.
    """
    [operation] = section.operations
    await admit(guard, websocket, operation.scope)
    if live.is_full:
        raise Refused(
            HTTPStatus.SERVICE_UNAVAILABLE, "there are too many streams open already"
        )
    # It reads no more of a request than any connection has.
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


async def _speak(reader: ClientBuffer, websocket: WebSocket) -> None:
    with suppress(WebSocketDisconnect):
        while reader.is_open:
            for message in await reader.take():
                await websocket.send_text(message.text)
        await websocket.close(NOT_NOW, "the server stops")


async def _dismiss(live: EventBroadcast, guard: Guard, websocket: WebSocket) -> None:
    await _while_allowed(live, guard, websocket)
    with suppress(WebSocketDisconnect):
        await websocket.close(NOT_ALLOWED, "you may no longer listen")


async def _hung_up(websocket: WebSocket) -> None:
    """Return when the client left; whatever it says before is not listened to."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass
