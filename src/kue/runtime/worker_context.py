"""Contexts and executors on the threads of a pool."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack
from weakref import WeakKeyDictionary

from kue.aio.callbacks import awaited
from kue.aio.loop_calls import hand_over
from kue.aio.loop_thread import close_loop
from kue.bus.consumer import reply_discarded
from kue.runtime.context import Context, current_context, wait_shielded
from kue.runtime.errors import RuntimeClosed
from kue.runtime.thread_pool import (
    OrderedCalls,
    ThreadPool,
    ThreadPools,
    fulfil,
    on_thread,
    start,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kue.bus import Handler, Message
    from kue.runtime.context import Callback
    from kue.runtime.event_loops import LoopHost
    from kue.runtime.runtime import Runtime

A = TypeVarTuple("A")
T = TypeVar("T")


class WorkerContext(Context):
    """
    A context on the threads of a pool: a handler ends before the next begins.

    An async handler gets an event loop that runs for as long as the handler does; a
    task that it leaves behind continues only while another handler runs.
    """

    is_worker = True

    def __init__(
        self, runtime: Runtime, host: LoopHost, *, pool: ThreadPool, **rest: Any
    ) -> None:
        super().__init__(runtime, host, **rest)
        self._ordered = OrderedCalls(pool)
        self._loop = None
        self._calls: dict[Future[Any], asyncio.Task[Any]] = {}

    def queue(self, function: Callback, then: Callback | None = None) -> None:
        self.check()
        call = partial(self.variables().run, self._invoke, function, then)
        self._ordered.submit(call)

    def _invoke(self, function: Callback, then: Callback | None) -> None:
        try:
            self._run(function)
        except asyncio.CancelledError:
            # As on an event loop, a cancellation is not reported.
            pass
        except BaseException as exc:
            # Even an exit: the thread serves others too.
            super().report(exc)
        if then is not None:
            then()

    def _run(self, function: Callback) -> None:
        # A plain function is called where no loop runs: it may well start one.
        answer = function()
        if inspect.isawaitable(answer):
            task = self._task(answer)
            task.get_loop().run_until_complete(task)

    def handler(self, function: Handler) -> Handler:
        async def handle(message: Message) -> None:
            try:
                self.check()
                call = partial(self.variables().run, self._handle, function, message)
                future = start(self._ordered, call)
            except RuntimeClosed:
                reply_discarded(message)
                return
            await asyncio.wrap_future(future)

        return handle

    def _handle(self, function: Handler, message: Message) -> None:
        if self.have_consumers_ended:
            # It was queued behind the end of the verticle.
            reply_discarded(message)
            return
        try:
            self._run(partial(function, message))
        except (SystemExit, KeyboardInterrupt, GeneratorExit) as exc:
            # The loop that receives it serves others too.
            raise RuntimeError(f"the handler raised {exc!r}") from exc

    def report(self, error: BaseException) -> None:
        # The exception handler may block, as the handlers may.
        self.run(super().report, error)

    def keep(self, task: asyncio.Task[Any]) -> None:
        # It waits for a thread, and ends with that.
        pass

    def _begin(self, function: Callable[[], Awaitable[T]]) -> Future[T]:
        self.check()
        future: Future[T] = Future()
        call = partial(self.variables().run, self._invoke_call, future, function)
        self._ordered.submit(partial(fulfil, future, call))
        return future

    def _invoke_call(
        self, future: Future[T], function: Callable[[], Awaitable[T]]
    ) -> T:
        task = self._task(function())
        self._calls[future] = task
        try:
            return task.get_loop().run_until_complete(task)
        finally:
            del self._calls[future]

    def _task(self, answer: Awaitable[T]) -> asyncio.Task[T]:
        if self._loop is None:
            self._loop = self.runtime.loop_factory()
        return self._loop.create_task(awaited(answer))

    def _cancel(self, future: Future[Any]) -> None:
        task = self._calls.get(future)
        if task is not None:
            # The task may end in the meantime, and the context with it.
            hand_over(task.get_loop(), task.cancel)

    async def close(self) -> None:
        await self.call(self._hooks.close)
        self._is_closed = True
        # After the handler that called this, if one did.
        ended = start(self._ordered, self._close_loop)
        if not self._is_current():
            await wait_shielded(ended)

    def _close_loop(self) -> None:
        if self._loop is not None:
            close_loop(self._loop)


class WorkerExecutor:
    """A named pool for blocking code.  It ends when the last holder closes it."""

    def __init__(self, pools: ThreadPools, pool: ThreadPool) -> None:
        self._pools = pools
        self._pool = pool
        self._ordered: WeakKeyDictionary[Context, OrderedCalls] = WeakKeyDictionary()
        self._is_closed = False

    async def execute_blocking(
        self, function: Callable[[Unpack[A]], T], *args: *A, ordered: bool = True
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
