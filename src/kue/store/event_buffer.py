"""Event buffer of one subscriber: bounded, and reports how many events it dropped."""

from __future__ import annotations

import asyncio
import time
from collections import deque

from kue.model.events import Event, Kind


class EventBuffer:
    """
    Events for one subscriber, as an async iterator.

    When *size* events are unread, the oldest is dropped; the next event read is then
    ``lagged``, with how many were missed.
    """

    def __init__(self, size: int, *, only: frozenset[int] | None = None) -> None:
        if size < 1:
            raise ValueError(f"buffer must be at least 1, not {size}")
        self._events: deque[tuple[int, Event]] = deque()
        self._size = size
        self._only = only
        self._missed: int | None = None
        self._arrived = asyncio.Event()

    def put(self, event: Event, seq: int = 0) -> None:
        """Add an event, if this subscriber wants it.  Never blocks."""
        if self._only is None:
            # Those who subscribe to all jobs would get little else.
            if event.kind is Kind.CHUNK:
                return
        elif event.job_id not in self._only:
            return
        if len(self._events) == self._size:
            self._events.popleft()
            self._missed = (self._missed or 0) + 1
        self._events.append((seq, event))
        self._arrived.set()

    def lag(self, missed: int) -> None:
        """Record that events were missed, of unknown number if 0."""
        self._missed = (self._missed or 0) + missed
        self._arrived.set()

    def drop(self, seq: int) -> None:
        """Drop the events up to number *seq*."""
        while self._events and self._events[0][0] <= seq:
            self._events.popleft()

    def __aiter__(self) -> EventBuffer:
        return self

    async def __anext__(self) -> Event:
        while not self._events and self._missed is None:
            self._arrived.clear()
            await self._arrived.wait()
        if self._missed is not None:
            missed, self._missed = self._missed, None
            return Event(
                kind=Kind.LAGGED,
                job_id=0,
                type="",
                at=self._events[0][1].at if self._events else _now_ms(),
                detail={"missed": missed},
            )
        return self._events.popleft()[1]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
