"""Services for code in a context: consumers, timers and worker threads."""

from __future__ import annotations

import contextvars
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, TypeVar, TypeVarTuple, Unpack
from weakref import WeakKeyDictionary

from kue.bus.consumer import DEFAULT_BUFFER
from kue.runtime.context import Context, current_context, on_thread
from kue.runtime.errors import RuntimeClosed
from kue.runtime.thread_pool import OrderedCalls, ThreadPool, ThreadPools
from kue.runtime.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.bus import Consumer, Handler
    from kue.model.duration import Duration
    from kue.runtime.timers import TimerHandler

A = TypeVarTuple("A")
T = TypeVar("T")
#: Threads of a pool by default.
WORKERS = 20


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


class ContextServices(ABC):
    """The part of a `Runtime` that handlers use; all of it belongs to their context."""

    def __init__(self) -> None:
        self._timers = Timers()
        self._pools = ThreadPools()

    @abstractmethod
    def context(self) -> Context:
        """Return the context that this code runs in, or a new one on the next loop."""

    @abstractmethod
    def hold_pool(self, name: str, size: int, limit: float | None = None) -> ThreadPool:
        """Return the pool called *name*, which exists until it is released."""

    @abstractmethod
    def _current(self) -> Context | None:
        """Return the context that this code runs in, if it is one of this runtime."""

    # -- messages --------------------------------------------------------------

    def consumer(
        self,
        address: str,
        handler: Handler | None = None,
        *,
        local: bool = False,
        buffer: int = DEFAULT_BUFFER,
        concurrency: int = 1,
    ) -> Consumer:
        """
        Register a consumer of *address*, in this context or in a new one.

        It ends with the verticle that made it, or with the runtime.
        """
        return self.context().consumers.add(
            address, handler, local=local, buffer=buffer, concurrency=concurrency
        )

    # -- timers ----------------------------------------------------------------

    def set_timer(self, delay: Duration, handler: TimerHandler) -> int:
        """
        Call *handler* once, in this context; return the timer's id.

        Raises:
            ValueError: The delay is shorter than a millisecond.
        """
        return self._timers.set(self.context(), delay, handler, is_periodic=False)

    def set_periodic(self, delay: Duration, handler: TimerHandler) -> int:
        """
        Call *handler* every *delay*, in this context; return the timer's id.

        A call that is due while the previous one still runs is skipped.
        """
        return self._timers.set(self.context(), delay, handler, is_periodic=True)

    def cancel_timer(self, timer_id: int) -> bool:
        """Cancel a timer; False if it has ended, or never existed."""
        return self._timers.cancel(timer_id)

    # -- blocking code ---------------------------------------------------------

    async def execute_blocking(
        self,
        function: Callable[[Unpack[A]], T],
        *args: *A,
        ordered: bool = True,
    ) -> T:
        """
        Call *function*, which blocks, in a worker thread and return what it returns.

        Calls of one context are made in order, unless *ordered* is false; outside of a
        context there is no order.
        """
        return await self.context().execute_blocking(function, *args, ordered=ordered)

    def worker_executor(
        self, name: str, size: int = WORKERS, *, limit: float | None = None
    ) -> WorkerExecutor:
        """
        Return the pool called *name*, for blocking code; close it after use.

        One requested by a verticle is closed with it.
        """
        executor = WorkerExecutor(self._pools, self.hold_pool(name, size, limit))
        context = self._current()
        if context is not None:
            context.add_close_hook(executor.close)
        return executor
