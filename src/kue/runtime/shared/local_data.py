"""Shared data in this runtime: maps, counters and locks, for any thread."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self

from kue.model.duration import milliseconds
from kue.runtime.errors import LockTimedOut
from kue.runtime.shared.contract import Counter
from kue.runtime.shared.values import EncodedMap, check_number, thaw

if TYPE_CHECKING:
    from kue.model.duration import Duration
    from kue.model.payload import JSON
    from kue.runtime.shared.contract import Lock
    from kue.runtime.shared.values import Condition


class Cancellable(Protocol):
    def cancel(self) -> None: ...


#: Calls a function in so many seconds.
CallLater = Callable[[float, Callable[[], None]], Cancellable]
#: Waiters, the first first; each is done when the lock is handed to it.
Waiters = OrderedDict["Future[None]", None]


@dataclass(eq=False, slots=True)
class _Entry:
    text: bytes
    #: By the monotonic clock.
    until: float | None = None
    timer: Cancellable | None = None

    @property
    def is_expired(self) -> bool:
        return self.until is not None and time.monotonic() >= self.until


class LocalAsyncMap(EncodedMap):
    """An `AsyncMap` for all threads of one runtime."""

    def __init__(self, call_later: CallLater) -> None:
        self._call_later = call_later
        self._entries: dict[str, _Entry] = {}
        self._lock = threading.Lock()

    async def clear(self) -> None:
        with self._lock:
            for key in tuple(self._entries):
                self._drop(key)

    async def size(self) -> int:
        return len(self._texts())

    async def keys(self) -> list[str]:
        return list(self._texts())

    async def entries(self) -> dict[str, JSON]:
        return {key: thaw(text) for key, text in self._texts().items()}

    def _texts(self) -> dict[str, bytes]:
        with self._lock:
            entries = self._entries.items()
            return {key: entry.text for key, entry in entries if not entry.is_expired}

    async def _get(self, key: str) -> bytes | None:
        with self._lock:
            return self._text(key)

    async def _put(
        self, where: Condition, key: str, text: bytes, ms: int, old: bytes
    ) -> bytes | None:
        with self._lock:
            current = self._text(key)
            is_put = {
                "any": True,
                "absent": current is None,
                "present": current is not None,
                "same": current == old,
            }
            if is_put[where]:
                self._set(key, text, ms / 1000)
            return current

    async def _remove(self, key: str, old: bytes) -> bytes | None:
        with self._lock:
            current = self._text(key)
            if not old or current == old:
                self._drop(key)
            return current

    def _expire(self, key: str, entry: _Entry) -> None:
        with self._lock:
            if self._entries.get(key) is entry:
                del self._entries[key]

    # -- under the lock --------------------------------------------------------

    def _text(self, key: str) -> bytes | None:
        entry = self._entries.get(key)
        # Its timer may be late.
        return None if entry is None or entry.is_expired else entry.text

    def _set(self, key: str, text: bytes, seconds: float) -> None:
        entry = _Entry(text)
        if seconds:
            entry.until = time.monotonic() + seconds
            entry.timer = self._call_later(seconds, partial(self._expire, key, entry))
        self._drop(key)
        self._entries[key] = entry

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None and entry.timer is not None:
            entry.timer.cancel()


class LocalLocks:
    """
    The locks of one runtime: first come, first served.

    A lock is handed to the next waiter without being free in between: no caller can
    jump the queue.
    """

    def __init__(self) -> None:
        #: Locks that are held, and the waiters for each.
        self._queues: dict[str, Waiters] = {}
        self._mutex = threading.Lock()
        self._fences = itertools.count(1)

    async def acquire(self, name: str, timeout: Duration) -> LocalLock:
        seconds = milliseconds(timeout, field="timeout") / 1000
        waiter = self._join(name)
        try:
            if not waiter.done():
                async with asyncio.timeout(seconds):
                    # The future itself must not be cancelled: `release` sets it.
                    await asyncio.shield(asyncio.wrap_future(waiter))
        except BaseException as exc:
            self._leave(name, waiter)
            if isinstance(exc, TimeoutError):
                raise LockTimedOut(name) from None
            raise
        return LocalLock(self, name, next(self._fences))

    def release(self, name: str) -> None:
        with self._mutex:
            queue = self._queues[name]
            if queue:
                waiter, _ = queue.popitem(last=False)
                waiter.set_result(None)
            else:
                del self._queues[name]

    def _join(self, name: str) -> Future[None]:
        """Take the lock or join the queue; return a future, done if it is held."""
        waiter: Future[None] = Future()
        with self._mutex:
            if name in self._queues:
                self._queues[name][waiter] = None
            else:
                self._queues[name] = OrderedDict()
                waiter.set_result(None)
        return waiter

    def _leave(self, name: str, waiter: Future[None]) -> None:
        with self._mutex:
            is_held = waiter.done()
            if not is_held:
                del self._queues[name][waiter]
        if is_held:
            # It was handed over just now; pass it on.
            self.release(name)


class LocalLock:
    """A lock that is held."""

    def __init__(self, locks: LocalLocks, name: str, fence: int) -> None:
        self._locks = locks
        self._name = name
        self.fence = fence
        self.is_held = True

    async def release(self) -> None:
        was_held, self.is_held = self.is_held, False
        if was_held:
            self._locks.release(self._name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.release()


class LocalCounter(Counter):
    """An integer shared by all threads of one runtime."""

    def __init__(self) -> None:
        self._number = 0
        self._lock = threading.Lock()

    async def get(self) -> int:
        return self._number

    async def add_and_get(self, number: int) -> int:
        return await self.get_and_add(number) + number

    async def get_and_add(self, number: int) -> int:
        check_number(number)
        with self._lock:
            before = self._number
            self._number = check_number(before + number)
            return before

    async def compare_and_set(self, expected: int, number: int) -> bool:
        check_number(number)
        with self._lock:
            is_equal = self._number == expected
            if is_equal:
                self._number = number
            return is_equal


class LocalShared:
    """
    Maps, locks and counters for all threads of the runtime.

    Args:
        call_later: Calls a function later; entries with a ttl expire by it.
    """

    def __init__(self, call_later: CallLater) -> None:
        self._call_later = call_later
        self._maps: dict[str, LocalAsyncMap] = {}
        self._counters: dict[str, LocalCounter] = {}
        self._locks = LocalLocks()

    async def open(self) -> None:
        """Do nothing: it is part of an open runtime."""

    async def close(self) -> None:
        """Do nothing."""

    async def map(self, name: str) -> LocalAsyncMap:
        return self._maps.setdefault(name, LocalAsyncMap(self._call_later))

    async def lock(self, name: str, *, timeout: Duration) -> Lock:
        return await self._locks.acquire(name, timeout)

    async def counter(self, name: str) -> LocalCounter:
        return self._counters.setdefault(name, LocalCounter())
