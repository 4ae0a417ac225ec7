"""
Broadcast of job events to many clients, from one subscription to the store.

Every client has its own buffer (`http.streaming.client_buffer`): a slow client affects
only itself.  The newest events are kept for clients that reconnect with the id of the
last event they received.

A client that received ``lagged`` reads from the store what it needs; it receives every
event after that.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from kue.aio.retry import StoreRetry
from kue.aio.tasks import BackgroundTasks
from kue.http.security.redaction import Redaction
from kue.http.streaming.client_buffer import (
    BufferLimits,
    ClientBuffer,
    EventFilter,
    RecentMessages,
    StreamMessage,
    StreamPayload,
)
from kue.model.clock import SystemClock
from kue.model.errors import StoreError
from kue.model.events import Event, Kind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from kue.client.queue import Kue
    from kue.store.contract import Events

#: Seconds between two checks of whether the server is stopping.
POLL_SECONDS = 0.25
#: Events after which other tasks get their turn.
BATCH = 200
#: Digits of an event's number; no server lives long enough for more.
MAX_DIGITS = 15
_clock = SystemClock()


class EventBroadcast:
    """
    Events of a queue for the clients of one server.

    It is subscribed from the first client on, until a while after the last left.
    """

    def __init__(
        self,
        q: Kue,
        limits: BufferLimits | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        self._q = q
        self._redaction = redaction or Redaction()
        self.limits = limits or BufferLimits()
        #: Distinguishes event numbers of this process from those of another.
        self._epoch = secrets.token_hex(4)
        #: The number of the newest event.
        self._number = 0
        self._ring = RecentMessages(self.limits.ring, self.limits.ring_bytes)
        #: In the ring, but not yet in the buffers of clients.
        self._unsent: list[StreamMessage] = []
        self._buffers: set[ClientBuffer] = set()
        #: Streams that are not of events, each until its event is set.
        self._others: set[asyncio.Event] = set()
        self._is_up: bool | None = None
        self._is_closed = False
        self._background = BackgroundTasks()
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        #: What else to close with the streams.
        self.closing: list[Callable[[], Awaitable[None]]] = []

    @property
    def is_full(self) -> bool:
        """Whether no further client is accepted."""
        clients = len(self._buffers) + len(self._others)
        return self._is_closed or clients >= self.limits.clients

    @contextmanager
    def join(
        self, event_filter: EventFilter, last_id: str = ""
    ) -> Iterator[ClientBuffer]:
        """
        Yield the buffer of a client, for as long as the context lasts.

        Once the client has received that the store is up, it misses nothing.  With
        *last_id* it first receives the events after that one.
        """
        self._flush()
        buffer = self._buffer_for(event_filter, last_id)
        if self._is_up is not None:
            buffer.set_store_state(self._is_up)
        self._buffers.add(buffer)
        self._start()
        try:
            yield buffer
        finally:
            self._buffers.discard(buffer)
            self._stop_later()

    @contextmanager
    def reserve(self) -> Iterator[asyncio.Event]:
        """
        Count another stream as a client, for as long as the context lasts.

        The event it yields is set when that stream has to end.
        """
        ending = asyncio.Event()
        self._others.add(ending)
        self._watch_server()
        try:
            yield ending
        finally:
            self._others.discard(ending)
            self._stop_later()

    async def close(self) -> None:
        """End every stream, and the subscription."""
        self._is_closed = True
        self._end_streams()
        self._cancel_stop()
        await self._background.close()
        for close in self.closing:
            await close()

    def _buffer_for(self, event_filter: EventFilter, last_id: str) -> ClientBuffer:
        behind = self._behind(last_id)
        if behind is not None:
            buffer = ClientBuffer(event_filter, self.limits, start=last_id)
            buffer.catch_up(self._ring.newest(behind))
            return buffer
        buffer = ClientBuffer(event_filter, self.limits, start=self._id)
        if last_id:
            buffer.lag()
        return buffer

    def _behind(self, last_id: str) -> int | None:
        """Return how many events came after *last_id*; None when not all are kept."""
        epoch, _, number = last_id.partition("-")
        is_number = number.isascii() and number.isdigit() and len(number) <= MAX_DIGITS
        if epoch != self._epoch or not is_number:
            return None
        behind = self._number - int(number)
        return behind if 0 <= behind <= len(self._ring) else None

    @property
    def _id(self) -> str:
        return f"{self._epoch}-{self._number}"

    # -- subscription ----------------------------------------------------------

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = self._background.start(self._listen(), "kue live")
        self._watch_server()

    def _watch_server(self) -> None:
        self._cancel_stop()
        if self._ending is None or self._ending.done():
            self._ending = self._background.start(self._end_with_server(), "kue end")

    def _end_streams(self) -> None:
        for buffer in self._buffers:
            buffer.close()
        for ending in self._others:
            ending.set()

    async def _end_with_server(self) -> None:
        """
        End all streams once uvicorn is stopping.

        It waits for every unfinished response before it notifies the application, and
        an event stream never finishes.
        """
        while not _is_stopping():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(POLL_SECONDS)
        self._end_streams()
        self._stop()

    def _stop_later(self) -> None:
        if not self._buffers and not self._others and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.limits.linger, self._stop)

    def _cancel_stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _stop(self) -> None:
        for task in (self._task, self._ending):
            if task is not None:
                task.cancel()
        self._task = self._ending = None
        self._is_up = None
        # Events from now on are not received: a number is skipped, so that a client
        # that reconnects with an earlier one receives ``lagged``.
        self._flush()
        self._ring.clear()
        self._number += 1

    async def _listen(self) -> None:
        retry = StoreRetry(self._q.store.name)
        is_reconnected = False
        while True:
            async with AsyncExitStack() as stack:
                subscribe = partial(self._subscribe, stack)
                events = await retry.persist("live events", subscribe)
                self._set_store_state(is_up=True)
                if is_reconnected:
                    # Only now: a client receives every event after this one.
                    self._publish(_lagged())
                await self._relay(events)
                is_reconnected = True

    async def _subscribe(self, stack: AsyncExitStack) -> Events:
        # Not `Kue.events`: it does not report when it is subscribed.
        watch = self._q.store.watch(buffer=self.limits.ring)
        try:
            return await stack.enter_async_context(watch)
        except Exception:
            self._set_store_state(is_up=False)
            raise

    async def _relay(self, events: Events) -> None:
        """Publish the events of the store, until the connection to it is lost."""
        while (event := await self._next(events)) is not None:
            self._publish(event)
            if len(self._unsent) >= BATCH:
                self._flush()
                # Events may keep coming for a long time.
                await asyncio.sleep(0)

    async def _next(self, events: Events) -> Event | None:
        """Return the next event; None when the connection was lost before it."""
        while True:
            try:
                async with asyncio.timeout(self.limits.probe):
                    event = await anext(events)
            except TimeoutError:
                if not await self._store_answers():
                    return None
                continue
            if event.kind is not Kind.LAGGED or event.detail.get("missed"):
                return event
            # The connection was lost, and with it an unknown number of events.
            await self._store_answers()
            return None

    async def _store_answers(self) -> bool:
        """Return whether the store answers; notify the clients if it does not."""
        try:
            await self._q.now()
        except StoreError:
            self._set_store_state(is_up=False)
            return False
        return True

    # -- publishing ------------------------------------------------------------

    def _set_store_state(self, *, is_up: bool) -> None:
        if is_up is not self._is_up:
            self._is_up = is_up
            for buffer in self._buffers:
                buffer.set_store_state(is_up)

    def _publish(self, event: Event) -> None:
        self._number += 1
        detail = self._redaction.detail(event.detail)
        message = StreamMessage(
            StreamPayload.of(event, id=self._id, detail=detail), event
        )
        self._ring.add((message,))
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(message)

    def _flush(self) -> None:
        """Put what is new into the buffers, all at once: that is much cheaper."""
        unsent, self._unsent = self._unsent, []
        if unsent:
            for buffer in self._buffers:
                buffer.put(unsent)


def _lagged() -> Event:
    return Event(
        kind=Kind.LAGGED,
        job_id=0,
        type="",
        at=_clock.now_ms(),
        detail={"missed": 0},
    )


def _is_stopping() -> bool:
    """Return whether a uvicorn of this process is stopping; False if there is none."""
    # Its signal handlers are methods of the server, which has a flag.
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    servers = [getattr(handler, "__self__", None) for handler in handlers]
    return any(getattr(server, "should_exit", False) is True for server in servers)
