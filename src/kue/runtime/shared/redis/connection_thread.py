"""
The thread of the Redis connections of shared data, with its own event loop.

A Redis client belongs to one loop, and shared data is used from many.  And a handler
that blocks its loop must not prevent the renewal of leases.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from kue.aio.loop_thread import LoopThread
from kue.runtime.errors import RuntimeClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

A = TypeVarTuple("A")
T = TypeVar("T")


class ConnectionThread(LoopThread):
    """Runs from its creation until `close`."""

    def __init__(self) -> None:
        super().__init__("kue-shared")

    async def call(
        self, function: Callable[[Unpack[A]], Coroutine[Any, Any, T]], *args: *A
    ) -> T:
        """
        Call an async *function* in the thread and return what it returns.

        Raises:
            RuntimeClosed: It is closed, or was closed during the call.
        """
        caller = asyncio.current_task()
        assert caller is not None
        cancellations = caller.cancelling()
        try:
            return await asyncio.wrap_future(self.start(function(*args)))
        except asyncio.CancelledError:
            if caller.cancelling() > cancellations:
                raise
            text = "this shared data was closed during the call"
            raise RuntimeClosed(text) from None

    def post(self, function: Callable[[Unpack[A]], object], *args: *A) -> None:
        """Call a plain *function* in the thread soon."""
        if not self.call_soon(function, *args):
            raise self._closed()

    async def close(self) -> None:
        """End the thread, and cancel the calls that run there."""
        self.stop()
        await asyncio.to_thread(self.join)

    def _closed(self) -> Exception:
        return RuntimeClosed("this shared data was closed")
