"""Shared data in this runtime: maps, counters and locks, for any thread."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self

from kue.model.duration import milliseconds
from kue.runtime.errors import LockTimedOut
from kue.runtime.shared.async_map import LocalAsyncMap
from kue.runtime.shared.contract import Counter
from kue.runtime.shared.values import check_number

if TYPE_CHECKING:
    from kue.model.duration import Duration
    from kue.runtime.shared.async_map import CallLater
    from kue.runtime.shared.contract import Lock

#: Waiters, the first first; each is done when the lock is handed to it.
Waiters = OrderedDict["Future[None]", None]


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
        if waiter is not None:
            await self._wait(name, waiter, seconds)
        return LocalLock(self, name, next(self._fences))

    def release(self, name: str) -> None:
        with self._mutex:
            queue = self._queues[name]
            if queue:
                waiter, _ = queue.popitem(last=False)
                waiter.set_result(None)
            else:
                del self._queues[name]

    def _join(self, name: str) -> Future[None] | None:
        """Take the lock, or join the queue and return the future of the lock."""
        with self._mutex:
            queue = self._queues.get(name)
            if queue is None:
                self._queues[name] = OrderedDict()
                return None
            waiter: Future[None] = Future()
            queue[waiter] = None
            return waiter

    async def _wait(self, name: str, waiter: Future[None], seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                # The future itself must not be cancelled: `release` sets it.
                await asyncio.shield(asyncio.wrap_future(waiter))
        except BaseException as exc:
            self._leave(name, waiter)
            if isinstance(exc, TimeoutError):
                raise LockTimedOut(name) from None
            raise

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
