"""
What happens to jobs, for many who watch: one subscription, however many clients.

Every client has a buffer of its own.  When it is full the oldest go, and the client is
told how many (``lagged``): one that is slow harms itself alone.  The newest events are
kept for clients that come back and say which one they heard last.

A client that was told ``lagged`` reads from the store what it must know; whatever
happens after that, it is told.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from kue.clock import SystemClock
from kue.errors import StoreError
from kue.events import Event, Kind
from kue.http.redaction import Redaction
from kue.http.stopping import until_stopping
from kue.listeners import Background
from kue.outage import Outage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kue.queue import Kue
    from kue.store.base import Events

#: Bytes that go to a client in one piece.
PIECE = 64 * 1024
#: Events after which others get their turn.
BATCH = 200
#: Digits of an event's number; no server lives long enough for more.
MAX_DIGITS = 15
#: The kind of message that says whether the store is there: ``state``, up or down.
STORE = "store"
#: Kinds that are not about a job, and that every client is told.
NOTICES = frozenset({STORE, Kind.LAGGED.value})

_clock = SystemClock()
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class Bounds:
    """How much is kept, and how long is waited."""

    #: Clients at once.
    clients: int = 1_000
    #: Events that wait for one client, and their bytes.
    buffer: int = 1_000
    buffer_bytes: int = 1024 * 1024
    #: Events kept for clients that come back, and their bytes.
    ring: int = 10_000
    ring_bytes: int = 16 * 1024 * 1024
    #: Seconds to go on listening when the last client left: it may come back.
    linger: float = 10.0
    #: Seconds of silence after which the store is asked whether it is there.
    probe: float = 5.0
    #: Seconds between two pieces for one client, so that events travel together.
    pause: float = 0.05
    #: Seconds of silence after which a client gets a sign of life.
    keep_alive: float = 15.0


@dataclass(frozen=True)
class Wish:
    """What a client wants to hear of; what is left out does not matter."""

    types: frozenset[str] = frozenset()
    kinds: frozenset[Kind] = frozenset()
    job_id: int | None = None

    @property
    def is_all(self) -> bool:
        return not (self.types or self.kinds or self.job_id is not None)

    def wants(self, event: Event) -> bool:
        if event.kind is Kind.LAGGED:
            return True
        return (
            (not self.types or event.type in self.types)
            and (not self.kinds or event.kind in self.kinds)
            and (self.job_id is None or event.job_id == self.job_id)
        )


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What a client is told, as JSON."""

    #: Where a client that comes back goes on; empty for what is not repeated.
    id: str = ""
    #: A kind of event, or ``store``.
    kind: str
    #: 0 for ``lagged`` and ``store``, which are about no job.
    job_id: int = 0
    type: str = ""
    #: Unix ms.
    at: int
    #: The attempt it happened in; 0 before the first.
    attempt: int = 0
    detail: dict[str, Any] = {}


class Message:
    """Something told, written once for all clients."""

    __slots__ = ("event", "frame")

    def __init__(self, told: Told, event: Event | None = None) -> None:
        #: None for notices.
        self.event = event
        #: As server-sent events have it.
        self.frame = _frame(told)

    @property
    def text(self) -> str:
        """The JSON alone."""
        start = self.frame.index(b"data: ") + len(b"data: ")
        return self.frame[start:-2].decode()


class Window:
    """The newest messages: so many at most, and of so many bytes."""

    def __init__(self, size: int, weight: int) -> None:
        self._size = size
        self._weight = weight
        self._messages: deque[Message] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, messages: Sequence[Message]) -> int:
        """Take messages in; return how many had to go."""
        before = len(self._messages) + len(messages)
        self._messages.extend(messages)
        self._bytes += sum(len(message.frame) for message in messages)
        while len(self._messages) > self._size or self._bytes > self._weight:
            self._pop()
        return before - len(self._messages)

    def widen(self, messages: Iterable[Message]) -> None:
        """Take messages in, and make room for as many more."""
        added = tuple(messages)
        self._size += len(added)
        self._weight += sum(len(message.frame) for message in added)
        self.add(added)

    def take(self, weight: int) -> list[Message]:
        """Take the oldest out: one, and more as long as they are not too heavy."""
        taken: list[Message] = []
        while self._messages and weight > 0:
            message = self._pop()
            weight -= len(message.frame)
            taken.append(message)
        return taken

    def newest(self, number: int) -> Iterator[Message]:
        return islice(self._messages, len(self._messages) - number, None)

    def clear(self) -> None:
        self._messages.clear()
        self._bytes = 0

    def _pop(self) -> Message:
        message = self._messages.popleft()
        self._bytes -= len(message.frame)
        return message


class Reader:
    """One client: what it wants to hear, and what waits to be told to it."""

    def __init__(self, wish: Wish, bounds: Bounds, *, start: str) -> None:
        self._wish = wish
        self._bounds = bounds
        self._start = start
        self._waiting = Window(bounds.buffer, bounds.buffer_bytes)
        self._missed: int | None = None
        self._is_up: bool | None = None
        self._was_up: bool | None = None
        self._has_news = asyncio.Event()
        self._rests_until = 0.0
        self.is_open = True

    def put(self, messages: Sequence[Message]) -> None:
        """Take in what it wants to hear.  Never waits."""
        wanted = messages if self._wish.is_all else self._wanted(messages)
        if wanted:
            if missed := self._waiting.add(wanted):
                self._missed = (self._missed or 0) + missed
            self._has_news.set()

    def catch_up(self, messages: Iterable[Message]) -> None:
        """Take in what it missed while it was away; none of it has to go."""
        self._waiting.widen(self._wanted(messages))
        if self._waiting:
            self._has_news.set()

    def lag(self) -> None:
        """Note that it missed events, nobody knows how many."""
        self._missed = self._missed or 0
        self._has_news.set()

    def store(self, is_up: bool) -> None:
        """Note whether the store is there."""
        self._is_up = is_up
        self._has_news.set()

    def close(self) -> None:
        """Let the client go when it has been told what waits."""
        self.is_open = False
        self._has_news.set()

    async def take(self) -> list[Message]:
        """Return what there is to tell; nothing when it was silent for long."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._rests_until - loop.time())
        try:
            async with asyncio.timeout(self._bounds.keep_alive):
                await self._has_news.wait()
        except TimeoutError:
            return []
        self._has_news.clear()
        messages = [*self._notices(), *self._waiting.take(PIECE)]
        if self._waiting:
            self._has_news.set()
        else:
            self._rests_until = loop.time() + self._bounds.pause
        return messages

    def _wanted(self, messages: Iterable[Message]) -> list[Message]:
        wants = self._wish.wants
        return [one for one in messages if one.event is None or wants(one.event)]

    def _notices(self) -> Iterator[Message]:
        # Kept beside the events: they are not to be lost when those run over.
        if self._is_up is not self._was_up:
            self._was_up = self._is_up
            # The first has a number, so that a client which heard nothing can resume.
            start, self._start = self._start, ""
            state = "up" if self._is_up else "down"
            yield _notice(STORE, {"state": state}, id=start)
        # Not while the store is away: a client could not read what it missed.
        if self._missed is not None and self._is_up:
            missed, self._missed = self._missed, None
            yield _notice(Kind.LAGGED, {"missed": missed})


class Live:
    """
    Events of a queue for the clients of one server.

    The store is listened to from the first client on, and a while after the last left.
    """

    def __init__(
        self,
        q: Kue,
        bounds: Bounds | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        self._q = q
        self._redaction = redaction or Redaction()
        self._bounds = bounds or Bounds()
        #: Tells numbers of this life of the server from those of another.
        self._epoch = secrets.token_hex(4)
        #: The number of the newest event.
        self._number = 0
        self._ring = Window(self._bounds.ring, self._bounds.ring_bytes)
        #: In the ring, but not yet with the readers.
        self._fresh: list[Message] = []
        self._readers: set[Reader] = set()
        self._is_up: bool | None = None
        self._is_closed = False
        self._background = Background()
        self._task: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        """Whether there is no place for another client."""
        return self._is_closed or len(self._readers) >= self._bounds.clients

    @contextmanager
    def join(self, wish: Wish, last_id: str = "") -> Iterator[Reader]:
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

    def _reader(self, wish: Wish, last_id: str) -> Reader:
        behind = self._behind(last_id)
        if behind is not None:
            reader = Reader(wish, self._bounds, start=last_id)
            reader.catch_up(self._ring.newest(behind))
            return reader
        reader = Reader(wish, self._bounds, start=self._id)
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
            self._timer = loop.call_later(self._bounds.linger, self._stop)

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
        outage = Outage(self._q.store.name)
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
        watch = self._q.store.watch(buffer=self._bounds.ring)
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
                async with asyncio.timeout(self._bounds.probe):
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
        told = Told(
            id=self._id,
            kind=event.kind.value,
            job_id=event.job_id,
            type=event.type,
            at=event.at,
            attempt=event.attempt,
            detail=self._redaction.detail(event.detail),
        )
        message = Message(told, event)
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


def _notice(kind: str, detail: dict[str, Any], *, id: str = "") -> Message:
    return Message(Told(id=id, kind=kind, at=_clock.now_ms(), detail=detail))


def _frame(told: Told) -> bytes:
    name = f"event: {told.kind}\n" if told.kind in NOTICES else ""
    place = f"id: {told.id}\n" if told.id else ""
    # JSON has no line breaks, so it is one line of data.
    return b"%sdata: %s\n\n" % ((name + place).encode(), _encode(told))
