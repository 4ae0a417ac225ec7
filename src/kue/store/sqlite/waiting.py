"""Waiting for work: who sleeps in this process, and what wakes them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

from kue.store.sqlite.gates import EVERY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kue.store.sqlite.threads import Notice


class Waiter:
    """Someone who sleeps until there may be work of some types."""

    def __init__(self, types: Iterable[str]) -> None:
        self.types = frozenset(types)
        #: Set when there is work for sure; otherwise it is worth another look.
        self.is_ready = False
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self, *, is_ready: bool) -> None:
        """Wake the sleeper, from any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake, is_ready)

    def _wake(self, is_ready: bool) -> None:
        self.is_ready = self.is_ready or is_ready
        self._woken.set()

    async def sleep(self, seconds: float) -> None:
        """Sleep until woken, at most for *seconds*."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()


class Waiters:
    """Everyone who sleeps in this process, on whatever event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiters: set[Waiter] = set()

    @contextlib.contextmanager
    def enter(self, types: Iterable[str]) -> Iterator[Waiter]:
        waiter = Waiter(types)
        with self._lock:
            self._waiters.add(waiter)
        try:
            yield waiter
        finally:
            with self._lock:
                self._waiters.discard(waiter)

    def notify(self, notice: Notice) -> None:
        """Wake those whom a transaction of this process concerns."""
        for waiter in self._all():
            if _concerns(waiter, notice.ready):
                waiter.wake(is_ready=True)
            elif _concerns(waiter, notice.later):
                waiter.wake(is_ready=False)

    def look(self) -> None:
        """Have everyone look again: another process wrote something."""
        for waiter in self._all():
            waiter.wake(is_ready=False)

    def _all(self) -> list[Waiter]:
        with self._lock:
            return list(self._waiters)


def _concerns(waiter: Waiter, types: set[str]) -> bool:
    return EVERY in types or not waiter.types.isdisjoint(types)
