"""
Streams of jobs: the chunks that a job sends while it runs.

Server-sent events.  Each chunk is a message with an id; after a lost connection a
browser sends the last one back and gets what followed it.  ``restart`` reports that the
job runs again: what came before does not count.  ``end`` is the last event.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta
from starlette.responses import Response

from kue.aio.tasks import cancel_all
from kue.client.new_job import JobId  # noqa: TC001 - operations read annotations
from kue.http.auth.roles import Scope
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import input_errors
from kue.http.streaming.event_stream import (
    KEEP_ALIVE,
    MEDIA_TYPE,
    EventStream,
    check_room,
    while_all,
    while_allowed,
)
from kue.http.v1.job_json import MAX_PAGE
from kue.model.errors import (
    JobCancelled,
    JobFailed,
    JobNotFound,
    StoreError,
    StreamRestarted,
)
from kue.model.job import State
from kue.model.stream import Position
from kue.model.view_struct import View

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from kue.client.handle import JobHandle
    from kue.http.security.redaction import Redaction
    from kue.http.streaming.broadcast import EventBroadcast
    from kue.http.streaming.event_stream import SendPart, Write
    from kue.model.stream import Chunk

section = Section("streams", "What jobs send while they run.", prefix="/jobs")

#: The id of the last event: a browser that reconnects with it is to stop.
END = "end"

ChunkId = Annotated[str, Meta(max_length=64)]
Stream = Annotated[
    Any,
    Meta(
        description="Server-sent events. The data of a message is a JSON object: id, "
        "attempt, at, value; that of ``end``: state, and kind and message of an error.",
        extra_json_schema={"type": "string"},
    ),
]

_encode = msgspec.json.Encoder().encode


class ChunkView(View, frozen=True, kw_only=True):
    """A chunk of a job's stream."""

    id: str
    attempt: int
    at: int
    value: Any


class ChunkPage(msgspec.Struct, frozen=True):
    """Some chunks of a job's stream, in order."""

    chunks: list[ChunkView]
    #: The *after* of the next page; null if there are no more chunks yet.
    next: str | None


class StreamQuery(Input, frozen=True, kw_only=True):
    """Where to begin."""

    #: Only what follows the chunk with this id; the header Last-Event-ID takes
    #: precedence.
    after: ChunkId = ""


class ChunksQuery(Input, frozen=True, kw_only=True):
    """Which chunks to show."""

    #: Only those that follow the chunk with this id.
    after: ChunkId = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 100


@section.get("/{job_id}/chunks")
async def chunks(
    context: RequestContext, job_id: JobId, query: ChunksQuery
) -> ChunkPage:
    """
    What the last run of a job that sent anything has sent so far, page by page.

    A page ends at about 1 MiB, however few chunks those are.  If after belongs to an
    earlier run, the page is the first one.
    """
    with input_errors("query.after"):
        after = Position.after(query.after)
    store = context.q.store
    found = await store.chunks(job_id, after, limit=query.limit)
    # A missing job has no chunks either.
    if not found and not await context.q.exists(job_id):
        raise JobNotFound(job_id)
    more = await store.chunks(job_id, found[-1].next, limit=1) if found else []
    shown = [_view(chunk, context.redaction) for chunk in found]
    return ChunkPage(shown, shown[-1].id if more else None)


@section.get("/{job_id}/stream", media_type=MEDIA_TYPE, also=(HTTPStatus.NO_CONTENT,))
async def stream(context: RequestContext, job_id: JobId, query: StreamQuery) -> Stream:
    """
    What a job sends while it runs, live: server-sent events.

    Each chunk is a message with an id, from the first chunk of the current run on, or
    after the one of Last-Event-ID.  ``event: restart`` means that the job runs again:
    drop what came before.  ``event: end`` has the state that the job ended in, and is
    the last one; a browser that reconnects after it gets a 204, and stops.
    """
    broadcast: EventBroadcast = context.request.app.state.live
    check_room(broadcast)
    last_id = context.request.headers.get("last-event-id", query.after)
    if last_id == END:
        return Response(status_code=HTTPStatus.NO_CONTENT)
    with input_errors("query.after"):
        Position.after(last_id)
    handle = await context.q.get(job_id)
    frames = partial(_frames, handle, last_id, context.redaction)
    recheck = broadcast.limits.recheck
    allowed = partial(
        while_allowed, recheck, context.guard, context.request, Scope.READ
    )
    return EventStream(partial(_begin, broadcast, frames), allowed)


@contextmanager
def _begin(
    broadcast: EventBroadcast, frames: Callable[[], AsyncGenerator[bytes, None]]
) -> Iterator[Write]:
    with broadcast.reserve() as ending:

        async def write(send_part: SendPart) -> None:
            keep_alive = broadcast.limits.keep_alive
            await while_all(_send(frames(), send_part, keep_alive), ending.wait())

        yield write


async def _send(
    frames: AsyncGenerator[bytes, None], send_part: SendPart, keep_alive: float
) -> None:
    """Send all frames, and a keep-alive after each *keep_alive* seconds without one."""
    # Without the store the client has to come again, and then learns more.
    async with aclosing(frames):
        with suppress(StoreError):
            while frame := await _next(frames, send_part, keep_alive):
                await send_part(frame)


async def _next(
    frames: AsyncGenerator[bytes, None], send_part: SendPart, keep_alive: float
) -> bytes:
    """Return the next frame; empty after the last one."""
    coming = asyncio.ensure_future(anext(frames, b""))
    try:
        while not (await asyncio.wait([coming], timeout=keep_alive))[0]:
            await send_part(KEEP_ALIVE)
        return coming.result()
    finally:
        # A generator that still runs cannot be closed.
        await cancel_all([coming])


async def _frames(
    handle: JobHandle[Any], last_id: str, redaction: Redaction
) -> AsyncGenerator[bytes, None]:
    """Yield a frame for each chunk and each restart, and one for the end."""
    end: dict[str, str] | None = None
    while end is None:
        try:
            async with aclosing(handle.chunks(after=last_id)) as found:
                async for chunk in found:
                    view = _view(chunk, redaction)
                    yield _frame(view, id=view.id)
            end = {"state": State.COMPLETE}
        except StreamRestarted:
            last_id = ""
            yield _frame({}, event="restart")
        except JobFailed as exc:
            message = redaction.text(exc.message)
            end = {"state": State.FAILED, "kind": exc.kind, "message": message}
        except JobCancelled as exc:
            end = {"state": State.CANCELLED, "message": redaction.text(exc.reason)}
        except JobNotFound:
            end = {"state": "removed"}
    yield _frame(end, event=END, id=END)


def _view(chunk: Chunk, redaction: Redaction) -> ChunkView:
    return ChunkView.of(chunk, value=redaction.hide(chunk.value))


def _frame(data: Any, *, event: str = "", id: str = "") -> bytes:
    lines = [f"event: {event}"] if event else []
    lines += [f"id: {id}"] if id else []
    # JSON has no line breaks, so it is one line of data.
    return "\n".join([*lines, f"data: {_encode(data).decode()}", "\n"]).encode()
