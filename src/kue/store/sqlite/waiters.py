"""Waiters: callers in this process that wait for work, and what wakes them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

from kue.store.sqlite.verbs.limits import EVERY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kue.store.sqlite.db_threads import CommitNotice


class Waiter:
    """A caller that sleeps until there may be work of some types."""

    def __init__(self, types: Iterable[str]) -> None:
        self.types = frozenset(types)
        #: Types that have work for sure; the others must be checked again.
        self.ready: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def concerns(self, types: set[str]) -> frozenset[str]:
        """Return those of its types that are among *types*."""
        return self.types if EVERY in types else self.types & types

    def wake(self, ready: Iterable[str] = ()) -> None:
        """Wake the caller, from any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake, ready)

    def _wake(self, ready: Iterable[str]) -> None:
        self.ready.update(ready)
        self._woken.set()

    async def sleep(self, seconds: float) -> None:
        """Sleep until woken, at most for *seconds*."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()


class Waiters:
    """All waiters of this process, on any event loop."""

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

    def notify(self, notice: CommitNotice) -> None:
        """Wake the waiters that a transaction of this process concerns."""
        for waiter in self._all():
            ready = waiter.concerns(notice.ready)
            if ready or waiter.concerns(notice.later):
                waiter.wake(ready)

    def wake_all(self) -> None:
        """Make all waiters check again: another process wrote something."""
        for waiter in self._all():
            waiter.wake()

    def _all(self) -> list[Waiter]:
        with self._lock:
            return list(self._waiters)
