"""
The thread of the Redis connections of shared data, with its own event loop.

A Redis client belongs to one loop, and shared data is used from many.  And a handler
that blocks its loop must not prevent the renewal of leases.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from kue.aio.event_loop import new_event_loop
from kue.runtime.errors import RuntimeClosed
from kue.runtime.event_loops import LoopThread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

A = TypeVarTuple("A")
T = TypeVar("T")


class ConnectionThread:
    """Runs from its creation until `close`."""

    def __init__(self) -> None:
        self._thread = LoopThread("kue-shared", new_event_loop)
        self._loop = self._thread.host.loop
        self._is_closed = False
        self._calls: set[Future[Any]] = set()

    async def call(self, function: Callable[[Unpack[A]], Awaitable[T]], *args: *A) -> T:
        """
        Call an async *function* in the thread and return what it returns.

        Raises:
            RuntimeClosed: It is closed, or was closed during the call.
        """
        future: Future[T] = Future()
        self._calls.add(future)
        future.add_done_callback(self._calls.discard)
        try:
            self.post(self._begin, future, function, args)
            return await asyncio.wrap_future(future)
        finally:
            # In any case, nothing waits for it any more.
            future.cancel()

    def post(self, function: Callable[[Unpack[A]], object], *args: *A) -> None:
        """Call a plain *function* in the thread soon."""
        if self._is_closed:
            raise RuntimeClosed("this shared data was closed")
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            raise RuntimeClosed("this shared data was closed") from None

    async def close(self) -> None:
        """End the thread, and cancel the calls that run there."""
        self._is_closed = True
        self._thread.close()
        await asyncio.to_thread(self._thread.join)
        for future in tuple(self._calls):
            # It was posted at the last moment and never started.
            _fail(future, RuntimeClosed("this shared data was closed during the call"))

    def _begin(
        self,
        future: Future[T],
        function: Callable[..., Awaitable[T]],
        args: tuple[Any, ...],
    ) -> None:
        task = self._loop.create_task(_fulfil(future, function, args))

        def end(future: Future[T]) -> None:
            if future.cancelled():
                with suppress(RuntimeClosed):
                    self.post(task.cancel)

        future.add_done_callback(end)


async def _fulfil(
    future: Future[T], function: Callable[..., Awaitable[T]], args: tuple[Any, ...]
) -> None:
    try:
        result = await function(*args)
    except asyncio.CancelledError:
        _fail(future, RuntimeClosed("this shared data was closed during the call"))
    except BaseException as exc:
        _fail(future, exc)
    else:
        with suppress(InvalidStateError):
            future.set_result(result)


def _fail(future: Future[Any], exc: BaseException) -> None:
    # The caller may have gone.
    with suppress(InvalidStateError):
        future.set_exception(exc)
