"""
Where all that speaks to Redis lives: a thread with an event loop of its own.

A link belongs to one loop, and shared data is used from many.  And a handler that
blocks its loop must not keep leases from being renewed.
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
    """Runs from its making until `close`."""

    def __init__(self) -> None:
        self._thread = LoopThread("kue-shared", new_event_loop)
        self._loop = self._thread.place.loop
        self._is_closed = False
        self._calls: set[Future[Any]] = set()

    async def call(self, function: Callable[[Unpack[A]], Awaitable[T]], *args: *A) -> T:
        """
        Call an async *function* there and return what it returns.

        Raises:
            RuntimeClosed: It is closed, or was meanwhile.
        """
        answer: Future[T] = Future()
        self._calls.add(answer)
        answer.add_done_callback(self._calls.discard)
        try:
            self.post(self._begin, answer, function, args)
            return await asyncio.wrap_future(answer)
        finally:
            # Whatever happened, nobody waits for it any more.
            answer.cancel()

    def post(self, function: Callable[[Unpack[A]], object], *args: *A) -> None:
        """Have a plain *function* called there soon."""
        if self._is_closed:
            raise RuntimeClosed("this shared data was closed")
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            raise RuntimeClosed("this shared data was closed") from None

    async def close(self) -> None:
        """End the thread, and whatever is still called there."""
        self._is_closed = True
        self._thread.close()
        await asyncio.to_thread(self._thread.join)
        for answer in tuple(self._calls):
            # It was posted in the last moment, and nobody came for it.
            _fail(answer, RuntimeClosed("this shared data was closed meanwhile"))

    def _begin(
        self,
        answer: Future[T],
        function: Callable[..., Awaitable[T]],
        args: tuple[Any, ...],
    ) -> None:
        task = self._loop.create_task(_fulfil(answer, function, args))

        def end(answer: Future[T]) -> None:
            if answer.cancelled():
                with suppress(RuntimeClosed):
                    self.post(task.cancel)

        answer.add_done_callback(end)


async def _fulfil(
    answer: Future[T], function: Callable[..., Awaitable[T]], args: tuple[Any, ...]
) -> None:
    try:
        result = await function(*args)
    except asyncio.CancelledError:
        _fail(answer, RuntimeClosed("this shared data was closed meanwhile"))
    except BaseException as exc:
        _fail(answer, exc)
    else:
        with suppress(InvalidStateError):
            answer.set_result(result)


def _fail(answer: Future[Any], exc: BaseException) -> None:
    # Whoever asked may have gone.
    with suppress(InvalidStateError):
        answer.set_exception(exc)
