"""Named thread pools for blocking code, in addition to those of verticles."""

from __future__ import annotations

import contextvars
from functools import partial
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, Unpack
from weakref import WeakKeyDictionary

from kue.runtime.context import Context, current_context, on_thread
from kue.runtime.errors import RuntimeClosed
from kue.runtime.thread_pool import OrderedCalls, ThreadPool, ThreadPools

if TYPE_CHECKING:
    from collections.abc import Callable

A = TypeVarTuple("A")
T = TypeVar("T")


class WorkerExecutor:
    """A named pool for blocking code.  It ends when the last holder closes it."""

    def __init__(self, pools: ThreadPools, pool: ThreadPool) -> None:
        self._pools = pools
        self._pool = pool
        self._ordered: WeakKeyDictionary[Context, OrderedCalls] = WeakKeyDictionary()
        self._is_closed = False

    async def execute_blocking(
        self,
        function: Callable[[Unpack[A]], T],
        *args: *A,
        ordered: bool = True,
    ) -> T:
        """Like `Runtime.execute_blocking`, on the threads of this pool."""
        if self._is_closed:
            raise RuntimeClosed(f"the executor {self._pool.name!r} is closed")
        target: ThreadPool | OrderedCalls = self._pool
        context = current_context()
        if ordered and context is not None:
            target = self._ordered.setdefault(context, OrderedCalls(self._pool))
        variables = contextvars.copy_context()
        return await on_thread(target, partial(function, *args), variables)

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._pools.release(self._pool)
