"""
Buffer of one client of an event stream: its filter, and the messages that wait.

A full buffer drops its oldest messages, and the client receives how many (``lagged``).
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
from kue.model.view_struct import View

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: Bytes that are sent to a client at once.
CHUNK_BYTES = 64 * 1024
#: The kind of message about the store: its ``state``, up or down.
STORE = "store"
#: Kinds that are not about a job, and go to every client.
NOTICES = frozenset({STORE, Kind.LAGGED.value})

_clock = SystemClock()
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True)
class BufferLimits:
    """Sizes and times of event streams."""

    #: Clients at once.
    clients: int = 1_000
    #: Events that wait for one client, and their bytes.
    buffer: int = 1_000
    buffer_bytes: int = 1024 * 1024
    #: Events kept for clients that reconnect, and their bytes.
    ring: int = 10_000
    ring_bytes: int = 16 * 1024 * 1024
    #: Seconds to stay subscribed after the last client left: it may reconnect.
    linger: float = 10.0
    #: Seconds without events after which the store is probed.
    probe: float = 5.0
    #: Seconds between two sends to one client, so that events are sent together.
    pause: float = 0.05
    #: Seconds without messages after which a client gets a keep-alive.
    keep_alive: float = 15.0
    #: Seconds between two checks of whether a client still has access.
    recheck: float = 15.0


@dataclass(frozen=True)
class EventFilter:
    """Which events a client wants; an omitted field matches all."""

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


class StreamPayload(View, frozen=True, kw_only=True):
    """The JSON of a message."""

    #: Where a client that reconnects resumes; empty for what is not repeated.
    id: str = ""
    #: A kind of event, or ``store``.
    kind: str
    #: 0 for ``lagged`` and ``store``, which are not about a job.
    job_id: int = 0
    type: str = ""
    #: Unix ms.
    at: int
    #: The attempt it happened in; 0 before the first.
    attempt: int = 0
    detail: dict[str, Any] = {}


class StreamMessage:
    """A message, encoded once for all clients."""

    __slots__ = ("event", "frame")

    def __init__(self, payload: StreamPayload, event: Event | None = None) -> None:
        #: None for notices.
        self.event = event
        #: As a server-sent event.
        self.frame = _frame(payload)

    @property
    def text(self) -> str:
        """The JSON alone."""
        start = self.frame.index(b"data: ") + len(b"data: ")
        return self.frame[start:-2].decode()


class RecentMessages:
    """The newest messages, limited in number and bytes."""

    def __init__(self, max_number: int, max_bytes: int) -> None:
        self._max_number = max_number
        self._max_bytes = max_bytes
        self._messages: deque[StreamMessage] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    def add(self, messages: Sequence[StreamMessage]) -> int:
        """Add messages; return how many were dropped."""
        before = len(self._messages) + len(messages)
        self._messages.extend(messages)
        self._bytes += sum(len(message.frame) for message in messages)
        while len(self._messages) > self._max_number or self._bytes > self._max_bytes:
            self._pop()
        return before - len(self._messages)

    def widen(self, messages: Iterable[StreamMessage]) -> None:
        """Add messages, and raise the limits by their number and bytes."""
        added = tuple(messages)
        self._max_number += len(added)
        self._max_bytes += sum(len(message.frame) for message in added)
        self.add(added)

    def take(self, max_bytes: int) -> list[StreamMessage]:
        """Remove and return the oldest: one, and more up to about *max_bytes*."""
        taken: list[StreamMessage] = []
        while self._messages and max_bytes > 0:
            message = self._pop()
            max_bytes -= len(message.frame)
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
    """One client: its filter, and the messages that wait for it."""

    def __init__(
        self, event_filter: EventFilter, limits: BufferLimits, *, start: str
    ) -> None:
        self._filter = event_filter
        self._limits = limits
        self._start = start
        self._waiting = RecentMessages(limits.buffer, limits.buffer_bytes)
        self._missed: int | None = None
        self._is_up: bool | None = None
        self._was_up: bool | None = None
        self._has_messages = asyncio.Event()
        self._pause_until = 0.0
        self.is_open = True

    def put(self, messages: Sequence[StreamMessage]) -> None:
        """Add the messages that pass the filter.  Never waits."""
        wanted = messages if self._filter.is_all else self._wanted(messages)
        if wanted:
            if missed := self._waiting.add(wanted):
                self._missed = (self._missed or 0) + missed
            self._has_messages.set()

    def catch_up(self, messages: Iterable[StreamMessage]) -> None:
        """Add what it missed while it was disconnected; none of it is dropped."""
        self._waiting.widen(self._wanted(messages))
        if self._waiting:
            self._has_messages.set()

    def lag(self) -> None:
        """Note that it missed an unknown number of events."""
        self._missed = self._missed or 0
        self._has_messages.set()

    def set_store_state(self, is_up: bool) -> None:
        """Note whether the store is up."""
        self._is_up = is_up
        self._has_messages.set()

    def close(self) -> None:
        """End the stream after the messages that wait."""
        self.is_open = False
        self._has_messages.set()

    async def take(self) -> list[StreamMessage]:
        """Return the next messages; none after a long silence."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._pause_until - loop.time())
        try:
            async with asyncio.timeout(self._limits.keep_alive):
                await self._has_messages.wait()
        except TimeoutError:
            return []
        self._has_messages.clear()
        messages = [*self._notices(), *self._waiting.take(CHUNK_BYTES)]
        if self._waiting:
            self._has_messages.set()
        else:
            self._pause_until = loop.time() + self._limits.pause
        return messages

    def _wanted(self, messages: Iterable[StreamMessage]) -> list[StreamMessage]:
        wants = self._filter.wants
        return [one for one in messages if one.event is None or wants(one.event)]

    def _notices(self) -> Iterator[StreamMessage]:
        # Kept apart from the events: they must not be dropped with those.
        if self._is_up is not self._was_up:
            self._was_up = self._is_up
            # The first has an id, so that a client without any event can resume.
            start, self._start = self._start, ""
            state = "up" if self._is_up else "down"
            yield _notice(STORE, {"state": state}, id=start)
        # Not while the store is down: a client could not read what it missed.
        if self._missed is not None and self._is_up:
            missed, self._missed = self._missed, None
            yield _notice(Kind.LAGGED, {"missed": missed})


def _notice(kind: str, detail: dict[str, Any], *, id: str = "") -> StreamMessage:
    return StreamMessage(
        StreamPayload(id=id, kind=kind, at=_clock.now_ms(), detail=detail)
    )


def _frame(payload: StreamPayload) -> bytes:
    name = f"event: {payload.kind}\n" if payload.kind in NOTICES else ""
    id_line = f"id: {payload.id}\n" if payload.id else ""
    # JSON has no line breaks, so it is one line of data.
    return b"%sdata: %s\n\n" % ((name + id_line).encode(), _encode(payload))
