"""
What happens to jobs, for many who watch: one subscription, however many clients.

Every client has a buffer of its own (`http.streaming.client_buffer`): one that is slow
harms itself alone.  The newest events are kept for clients that come back and say which
one they heard last.

A client that was told ``lagged`` reads from the store what it must know; whatever
happens after that, it is told.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from kue.aio.retry import StoreRetry
from kue.client.subscriptions import BackgroundTasks
from kue.http.security.redaction import Redaction
from kue.http.server.shutdown import until_stopping
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

#: Events after which others get their turn.
BATCH = 200
#: Digits of an event's number; no server lives long enough for more.
MAX_DIGITS = 15

_clock = SystemClock()


class EventBroadcast:
    """
    Events of a queue for the clients of one server.

    The store is listened to from the first client on, and a while after the last left.
    """

    def __init__(
        self,
        q: Kue,
        bounds: BufferLimits | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        self._q = q
        self._redaction = redaction or Redaction()
        self.bounds = bounds or BufferLimits()
        #: Tells numbers of this life of the server from those of another.
        self._epoch = secrets.token_hex(4)
        #: The number of the newest event.
        self._number = 0
        self._ring = RecentMessages(self.bounds.ring, self.bounds.ring_bytes)
        #: In the ring, but not yet with the readers.
        self._fresh: list[StreamMessage] = []
        self._readers: set[ClientBuffer] = set()
        self._is_up: bool | None = None
        self._is_closed = False
        self._background = BackgroundTasks()
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        #: What else ends with the streams.
        self.closing: list[Callable[[], Awaitable[None]]] = []

    @property
    def is_full(self) -> bool:
        """Whether there is no place for another client."""
        return self._is_closed or len(self._readers) >= self.bounds.clients

    @contextmanager
    def join(self, wish: EventFilter, last_id: str = "") -> Iterator[ClientBuffer]:
        """
        Give a client's reader, for as long as the context lasts.

        From the moment it is told that the store is up, nothing is missed.  With
        *last_id* it is first told what happened after that event.
        """
        self._flush()
        reader = self._reader(wish, last_id)
        if self._is_up is not None:
            reader.store(self._is_up)
        self._readers.add(reader)
        self._begin()
        try:
            yield reader
        finally:
            self._readers.discard(reader)
            self._rest()

    async def close(self) -> None:
        """End every stream, and listen no more."""
        self._is_closed = True
        for reader in self._readers:
            reader.close()
        self._stay()
        await self._background.close()
        for close in self.closing:
            await close()

    def _reader(self, wish: EventFilter, last_id: str) -> ClientBuffer:
        behind = self._behind(last_id)
        if behind is not None:
            reader = ClientBuffer(wish, self.bounds, start=last_id)
            reader.catch_up(self._ring.newest(behind))
            return reader
        reader = ClientBuffer(wish, self.bounds, start=self._id)
        if last_id:
            reader.lag()
        return reader

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

    # -- listening -------------------------------------------------------------

    def _begin(self) -> None:
        self._stay()
        if self._task is None or self._task.done():
            self._task = self._background.start(self._listen(), "kue live")
        if self._ending is None or self._ending.done():
            self._ending = self._background.start(self._end_with_server(), "kue end")

    async def _end_with_server(self) -> None:
        await until_stopping()
        for reader in self._readers:
            reader.close()
        self._stop()

    def _rest(self) -> None:
        if not self._readers and not self._is_closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self.bounds.linger, self._stop)

    def _stay(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop(self) -> None:
        self._timer = None
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        self._is_up = None
        # What happens from now on is not heard: a number is left out, so that whoever
        # comes back with an earlier one is told so.
        self._flush()
        self._ring.clear()
        self._number += 1

    async def _listen(self) -> None:
        outage = StoreRetry(self._q.store.name)
        is_again = False
        while True:
            async with AsyncExitStack() as stack:
                subscribe = partial(self._subscribe, stack)
                events = await outage.persist("live events", subscribe)
                self._say(is_up=True)
                if is_again:
                    # Only now: what happens after a client was told, it hears.
                    self._tell(_lagged())
                await self._relay(events)
                is_again = True

    async def _subscribe(self, stack: AsyncExitStack) -> Events:
        # Not `Kue.events`: it does not tell when it has begun to listen.
        watch = self._q.store.watch(buffer=self.bounds.ring)
        try:
            return await stack.enter_async_context(watch)
        except Exception:
            self._say(is_up=False)
            raise

    async def _relay(self, events: Events) -> None:
        """Tell what the store tells, until the connection to it was lost."""
        while (event := await self._next(events)) is not None:
            self._tell(event)
            if len(self._fresh) >= BATCH:
                self._flush()
                # There may be events for a long time yet.
                await asyncio.sleep(0)

    async def _next(self, events: Events) -> Event | None:
        """Return the next event; None when the connection was lost before it."""
        while True:
            try:
                async with asyncio.timeout(self.bounds.probe):
                    event = await anext(events)
            except TimeoutError:
                if not await self._is_well():
                    return None
                continue
            if not _is_break(event):
                return event
            await self._is_well()
            return None

    async def _is_well(self) -> bool:
        """Ask the store, and tell the clients when it does not answer."""
        try:
            await self._q.now()
        except StoreError:
            self._say(is_up=False)
            return False
        return True

    # -- telling ---------------------------------------------------------------

    def _say(self, *, is_up: bool) -> None:
        if is_up is not self._is_up:
            self._is_up = is_up
            for reader in self._readers:
                reader.store(is_up)

    def _tell(self, event: Event) -> None:
        self._number += 1
        told = StreamPayload(
            id=self._id,
            kind=event.kind.value,
            job_id=event.job_id,
            type=event.type,
            at=event.at,
            attempt=event.attempt,
            detail=self._redaction.detail(event.detail),
        )
        message = StreamMessage(told, event)
        self._ring.add((message,))
        if not self._fresh:
            asyncio.get_running_loop().call_soon(self._flush)
        self._fresh.append(message)

    def _flush(self) -> None:
        """Hand the readers what is new, all at once: it is cheaper by far."""
        fresh, self._fresh = self._fresh, []
        if fresh:
            for reader in self._readers:
                reader.put(fresh)


def _is_break(event: Event) -> bool:
    """Tell whether the store lost its connection, and so events of unknown number."""
    return event.kind is Kind.LAGGED and not event.detail.get("missed")


def _lagged() -> Event:
    return Event(
        kind=Kind.LAGGED,
        job_id=0,
        type="",
        at=_clock.now_ms(),
        detail={"missed": 0},
    )
