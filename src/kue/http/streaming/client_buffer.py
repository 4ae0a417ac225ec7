"""
What one client is told: the messages, and what waits for it.

A buffer that is full loses its oldest messages, and the client is told how many
(``lagged``).
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from kue.model.clock import SystemClock
from kue.model.events import Event, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Bytes that go to a client in one piece.
PIECE = 64 * 1024
#: The kind of message that says whether the store is there: ``state``, up or down.
STORE = "store"
#: Kinds that are not about a job, and that every client is told.
NOTICES = frozenset({STORE, Kind.LAGGED.value})

_clock = SystemClock()
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class BufferLimits:
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
    #: Seconds after which it is asked again whether a client may still listen.
    recheck: float = 15.0


@dataclass(frozen=True)
class EventFilter:
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


class StreamPayload(msgspec.Struct, frozen=True, kw_only=True):
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


class StreamMessage:
    """Something told, written once for all clients."""

    __slots__ = ("event", "frame")

    def __init__(self, told: StreamPayload, event: Event | None = None) -> None:
        #: None for notices.
        self.event = event
        #: As server-sent events have it.
        self.frame = _frame(told)

    @property
    def text(self) -> str:
        """The JSON alone."""
        start = self.frame.index(b"data: ") + len(b"data: ")
        return self.frame[start:-2].decode()


class RecentMessages:
    """The newest messages: so many at most, and of so many bytes."""

    def __init__(self, size: int, weight: int) -> None:
        self._size = size
        self._weight = weight
        self._messages: deque[StreamMessage] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, messages: Sequence[StreamMessage]) -> int:
        """Take messages in; return how many had to go."""
        before = len(self._messages) + len(messages)
        self._messages.extend(messages)
        self._bytes += sum(len(message.frame) for message in messages)
        while len(self._messages) > self._size or self._bytes > self._weight:
            self._pop()
        return before - len(self._messages)

    def widen(self, messages: Iterable[StreamMessage]) -> None:
        """Take messages in, and make room for as many more."""
        added = tuple(messages)
        self._size += len(added)
        self._weight += sum(len(message.frame) for message in added)
        self.add(added)

    def take(self, weight: int) -> list[StreamMessage]:
        """Take the oldest out: one, and more as long as they are not too heavy."""
        taken: list[StreamMessage] = []
        while self._messages and weight > 0:
            message = self._pop()
            weight -= len(message.frame)
            taken.append(message)
        return taken

    def newest(self, number: int) -> Iterator[StreamMessage]:
        return islice(self._messages, len(self._messages) - number, None)

    def clear(self) -> None:
        self._messages.clear()
        self._bytes = 0

    def _pop(self) -> StreamMessage:
        message = self._messages.popleft()
        self._bytes -= len(message.frame)
        return message


class ClientBuffer:
    """One client: what it wants to hear, and what waits to be told to it."""

    def __init__(self, wish: EventFilter, bounds: BufferLimits, *, start: str) -> None:
        self._wish = wish
        self._bounds = bounds
        self._start = start
        self._waiting = RecentMessages(bounds.buffer, bounds.buffer_bytes)
        self._missed: int | None = None
        self._is_up: bool | None = None
        self._was_up: bool | None = None
        self._has_news = asyncio.Event()
        self._rests_until = 0.0
        self.is_open = True

    def put(self, messages: Sequence[StreamMessage]) -> None:
        """Take in what it wants to hear.  Never waits."""
        wanted = messages if self._wish.is_all else self._wanted(messages)
        if wanted:
            if missed := self._waiting.add(wanted):
                self._missed = (self._missed or 0) + missed
            self._has_news.set()

    def catch_up(self, messages: Iterable[StreamMessage]) -> None:
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

    async def take(self) -> list[StreamMessage]:
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

    def _wanted(self, messages: Iterable[StreamMessage]) -> list[StreamMessage]:
        wants = self._wish.wants
        return [one for one in messages if one.event is None or wants(one.event)]

    def _notices(self) -> Iterator[StreamMessage]:
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


def _notice(kind: str, detail: dict[str, Any], *, id: str = "") -> StreamMessage:
    return StreamMessage(
        StreamPayload(id=id, kind=kind, at=_clock.now_ms(), detail=detail)
    )


def _frame(told: StreamPayload) -> bytes:
    name = f"event: {told.kind}\n" if told.kind in NOTICES else ""
    place = f"id: {told.id}\n" if told.id else ""
    # JSON has no line breaks, so it is one line of data.
    return b"%sdata: %s\n\n" % ((name + place).encode(), _encode(told))
