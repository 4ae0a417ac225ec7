"""Locks that are kept in this process: first come, first served, on any thread."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self

from kue.model.duration import milliseconds
from kue.runtime.errors import LockTimedOut

if TYPE_CHECKING:
    from types import TracebackType

    from kue.model.duration import Duration

#: Those who wait, the first first; each is told when it is its turn.
Line = OrderedDict["Future[None]", None]


class LocalLocks:
    """
    Hands locks out.

    A lock is handed on, never let go of in between: nobody can push in.
    """

    def __init__(self) -> None:
        #: Locks that are held, and who waits for each.
        self._lines: dict[str, Line] = {}
        self._mutex = threading.Lock()
        self._fences = itertools.count(1)

    async def acquire(self, name: str, timeout: Duration) -> LocalLock:
        seconds = milliseconds(timeout, field="timeout") / 1000
        turn = self._join(name)
        if turn is not None:
            await self._wait(name, turn, seconds)
        return LocalLock(self, name, next(self._fences))

    def release(self, name: str) -> None:
        with self._mutex:
            line = self._lines[name]
            if line:
                turn, _ = line.popitem(last=False)
                turn.set_result(None)
            else:
                del self._lines[name]

    def _join(self, name: str) -> Future[None] | None:
        """Take the lock, or a place in the line and return when it is its turn."""
        with self._mutex:
            line = self._lines.get(name)
            if line is None:
                self._lines[name] = OrderedDict()
                return None
            turn: Future[None] = Future()
            line[turn] = None
            return turn

    async def _wait(self, name: str, turn: Future[None], seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                # The future itself must stay whole: whoever releases sets it.
                await asyncio.shield(asyncio.wrap_future(turn))
        except BaseException as exc:
            self._leave(name, turn)
            if isinstance(exc, TimeoutError):
                raise LockTimedOut(name) from None
            raise

    def _leave(self, name: str, turn: Future[None]) -> None:
        with self._mutex:
            is_mine = turn.done()
            if not is_mine:
                del self._lines[name][turn]
        if is_mine:
            # It came in the same moment; it is the next one's.
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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.release()
