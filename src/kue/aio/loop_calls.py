"""Calls into an event loop, from its own thread or from another."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

#: How often a thread that waits for a loop looks whether it was interrupted.
_LOOK_SECONDS = 0.2


def running() -> asyncio.AbstractEventLoop | None:
    """Return the running loop of this thread, if there is one."""
    # Twenty times as fast as catching what get_running_loop raises.
    return asyncio._get_running_loop()


def hand_over(
    loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: Any
) -> None:
    """Schedule a call on another loop; one that is closed ignores it."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *args)


def call_in(
    loop: asyncio.AbstractEventLoop, call: Callable[..., object], *args: Any
) -> None:
    """Make a call in *loop*: at once if it runs here, else it is handed over."""
    if running() is loop:
        call(*args)
    else:
        hand_over(loop, call, *args)


async def await_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Run *work* in *loop*, which may be that of another thread."""
    if running() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


def block_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """
    Run *work* in *loop* and wait for it in this thread, which must be another.

    An exception that is raised in this thread from outside ends the wait soon.
    """
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        while True:
            try:
                return future.result(_LOOK_SECONDS)
            except TimeoutError:
                if future.done():
                    raise
    finally:
        future.cancel()


class LoopCalls(Generic[T]):
    """
    Passes items from other threads to one loop, in order.

    The loop calls *deliver* with each.  At most *limit* of them wait for a busy loop.
    """

    __slots__ = ("_deliver", "_is_called", "_limit", "_loop", "_waiting")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[T], object],
        *,
        limit: int,
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._limit = limit
        self._waiting: deque[T] = deque()
        self._is_called = False

    def put(self, item: T) -> bool:
        """Pass *item* on; return whether there was room and the loop is open."""
        if len(self._waiting) >= self._limit or self._loop.is_closed():
            return False
        self._waiting.append(item)
        # One call for all that wait.  Two threads may both call, which does no harm.
        if not self._is_called:
            self._is_called = True
            hand_over(self._loop, self._deliver_waiting)
        return True

    def _deliver_waiting(self) -> None:
        # First: a `put` from here on schedules another call.
        self._is_called = False
        try:
            for _ in range(len(self._waiting)):
                self._deliver(self._waiting.popleft())
        finally:
            if self._waiting and not self._is_called:
                self._is_called = True
                hand_over(self._loop, self._deliver_waiting)
