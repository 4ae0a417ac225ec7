"""
Contexts: where handlers run.

A context belongs to one event loop for life; a handler registered in it (of a timer, a
consumer) is always called there.  A `WorkerContext` has a thread of a pool instead,
never two at once, and keeps the order.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from kue.aio.callbacks import awaited
from kue.aio.loop_calls import running
from kue.runtime.errors import RuntimeClosed
from kue.runtime.thread_pool import OrderedCalls, ThreadPool, on_thread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine
    from concurrent.futures import Future

    from kue.bus import Consumer, Handler
    from kue.runtime.deployment import Deployment
    from kue.runtime.event_loops import LoopHost
    from kue.runtime.runtime import Runtime

#: A function, plain or async, without arguments.
Callback = Callable[[], object]
logger = logging.getLogger(__name__)
A = TypeVarTuple("A")
T = TypeVar("T")
#: Tasks that requested the end of a context in which they run: they may finish.
_protected: contextvars.ContextVar[frozenset[object]] = contextvars.ContextVar(
    "kue protected tasks", default=frozenset()
)


class CloseHooks:
    """
    Hooks of one owner: a verticle's context, or the runtime.

    Each is called once, the last added first, since it may depend on earlier ones.
    Hooks may be added from any thread.
    """

    def __init__(self) -> None:
        #: A dict keeps the order.
        self._hooks: dict[Callback, None] = {}

    def add(self, hook: Callback) -> None:
        self._hooks[hook] = None

    def remove(self, hook: Callback) -> None:
        """Remove *hook*, if it is there."""
        self._hooks.pop(hook, None)

    async def close(self) -> None:
        """Call all of them; a failure is logged and does not stop the others."""
        while self._hooks:
            hook, _ = self._hooks.popitem()
            try:
                await awaited(hook())
            except Exception:
                logger.exception("the close hook %r failed", hook)


_current: contextvars.ContextVar[Context | None] = contextvars.ContextVar(
    "kue context", default=None
)


def current_context() -> Context | None:
    """Return the context that this code runs in; None outside of any."""
    return _current.get()


class Context:
    """
    Where the handlers of one verticle run, or handlers that were registered together.

    On an event loop, they interleave when they await.

    Args:
        hooks: Called when the context ends: its verticle's, or the runtime's.
        blocking: The pool of `execute_blocking`.
        config: The config with which the verticle was deployed.
    """

    is_worker = False

    def __init__(
        self,
        runtime: Runtime,
        host: LoopHost,
        *,
        hooks: CloseHooks,
        blocking: ThreadPool,
        deployment: Deployment | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.runtime = runtime
        #: The loop of its timers, and of its handlers unless it is a worker's.
        self.host = host
        #: Where its async handlers run.
        self._loop: asyncio.AbstractEventLoop | None = host.loop
        self.deployment = deployment
        self.config: dict[str, Any] = {} if config is None else config
        #: For the code that runs in it, and no other.
        self.data: dict[str, Any] = {}
        #: Called with what a handler raises, instead of the runtime's or the log.
        self.exception_handler: Callable[[BaseException], object] | None = None
        self._hooks = hooks
        self._blocking = blocking
        self._blocking_in_order = OrderedCalls(blocking)
        #: Consumers made in it, from any thread; a dict keeps the order.
        self._consumers: dict[Consumer, None] = {}
        self._consumers_lock = threading.Lock()
        #: Whether the verticle is being stopped.
        self.have_consumers_ended = False
        #: What runs now, and is cancelled at the end.
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_closed = False

    def __repr__(self) -> str:
        kind = "worker" if self.is_worker else self.host.name
        return f"<context of {self.deployment or 'nobody'} on {kind}>"

    @property
    def deployment_id(self) -> str | None:
        return None if self.deployment is None else self.deployment.id

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self.host.loop

    # -- running ---------------------------------------------------------------

    def run(self, function: Callable[[Unpack[A]], object], *args: *A) -> None:
        """
        Call *function*, plain or async, in this context soon; from any thread.

        Calls are made in the order of submission.  What it raises goes to the
        exception handler.

        Raises:
            RuntimeClosed: The context is closed.
        """
        self.queue(partial(function, *args))

    def queue(self, function: Callback, then: Callback | None = None) -> None:
        """Like `run`, and call *then* when it has ended, successfully or not."""
        self.check()
        loop = self.loop
        call = loop.call_soon if running() is loop else loop.call_soon_threadsafe
        try:
            call(self._invoke, function, then, context=self.variables())
        except RuntimeError:
            raise RuntimeClosed(f"the loop of {self!r} is closed") from None

    async def call(self, function: Callable[[Unpack[A]], Awaitable[T]], *args: *A) -> T:
        """
        Call an async *function* in this context and return what it returns.

        From within the context it is called at once.

        Raises:
            RuntimeClosed: The context is closed, or was closed before the call ended.
        """
        if self._is_current():
            return await function(*args)
        future = self._begin(partial(function, *args))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if was_cancelled():
                self._cancel(future)
                raise
            raise RuntimeClosed(f"{self!r} was closed during the call") from None

    async def execute_blocking(
        self, function: Callable[[Unpack[A]], T], *args: *A, ordered: bool = True
    ) -> T:
        """
        Call *function*, which blocks, in a worker thread and return what it returns.

        Calls of one context are made one after another, in order; those without
        *ordered* run in parallel with all others.
        """
        pool = self._blocking_in_order if ordered else self._blocking
        return await on_thread(pool, partial(function, *args), self.variables())

    # -- its end ---------------------------------------------------------------

    def add_close_hook(self, hook: Callback) -> None:
        """Call *hook* when the context ends, after its verticle was stopped."""
        self._hooks.add(hook)

    def remove_close_hook(self, hook: Callback) -> None:
        self._hooks.remove(hook)

    async def close(self) -> None:
        """Call the hooks, and end what still runs; only for contexts of a verticle."""
        await self.call(self._end)

    # -- consumers -------------------------------------------------------------

    def add_consumer(
        self, address: str, handler: Handler | None, *, local: bool, **rest: int
    ) -> Consumer:
        """
        Register a consumer of *address*, which lives on this loop and ends with it.

        Raises:
            ValueError: The runtime has no bus.
            TypeError: There is no handler, and this code runs on another loop.
            RuntimeClosed: The context is closed.
        """
        self.check()
        bus = self.runtime.bus
        if bus is None:
            raise ValueError("this runtime has no bus; write Runtime(bus=EventBus())")
        if handler is not None:
            handler = self.handler(handler)
        elif running() is not self.loop:
            raise TypeError("it can only be read on its own loop; give a handler")
        make = self.variables().run
        consumer = make(bus.consumer, address, handler, local=local, home=self, **rest)
        with self._consumers_lock:
            self._consumers[consumer] = None
            self.add_close_hook(self.end_consumers)
        return consumer

    def end_consumers(self) -> None:
        """Unregister all of them; waiting messages are discarded."""
        self.have_consumers_ended = True
        for consumer in list(self._consumers):
            consumer.unregister()

    def forget(self, consumer: Consumer) -> None:
        with self._consumers_lock:
            self._consumers.pop(consumer, None)
            if not self._consumers:
                self.remove_close_hook(self.end_consumers)

    # -- for other parts of the runtime ----------------------------------------

    def variables(self) -> contextvars.Context:
        """Return the caller's context variables, with this as the current context."""
        variables = contextvars.copy_context()
        variables.run(_current.set, self)
        return variables

    def report(self, error: BaseException) -> None:
        """Pass what a handler raised to the exception handler."""
        handler = self.exception_handler or self.runtime.exception_handler
        try:
            if handler is None:
                logger.error("a handler failed in %r", self, exc_info=error)
            else:
                handler(error)
        except Exception:
            logger.exception("the exception handler of %r failed", self)

    def handler(self, function: Handler) -> Handler:
        """Return a handler that calls *function* where this context runs."""
        # A consumer calls it in the same loop.
        return function

    def keep(self, task: asyncio.Task[Any]) -> None:
        """End *task*, which runs a handler on its loop, with the context."""
        self._tasks.add(task)
        task.add_done_callback(self._drop)
        if self.deployment is None:
            # Nothing else tracks it: it ends with the runtime.
            self._hooks.add(self._end_tasks_in_loop)

    def check(self) -> None:
        """Raise `RuntimeClosed` if it is closed."""
        if self._is_closed or self.runtime.is_closed:
            raise RuntimeClosed(f"{self!r} is closed")

    def _is_current(self) -> bool:
        """Return whether this async code runs in the context, on its loop."""
        return current_context() is self and running() is self._loop

    def _begin(self, function: Callable[[], Awaitable[T]]) -> Future[T]:
        """Start a call of *function* and return the future of its result."""
        self.check()
        return self._submit(self._complete(function))

    def _cancel(self, future: Future[Any]) -> None:
        """Cancel what `_begin` started: the future, and with it its task."""
        future.cancel()

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            return self.variables().run(
                asyncio.run_coroutine_threadsafe, work, self.loop
            )
        except RuntimeError:
            work.close()
            raise RuntimeClosed(f"the loop of {self!r} is closed") from None

    async def _complete(self, function: Callable[[], Awaitable[T]]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self.keep(task)
        return await function()

    def _invoke(self, function: Callback, then: Callback | None) -> None:
        answer = None
        try:
            answer = function()
        except Exception as exc:
            self.report(exc)
        if inspect.isawaitable(answer):
            self._await(answer, then)
        elif then is not None:
            then()

    def _await(self, answer: Awaitable[object], then: Callback | None) -> None:
        task = self.loop.create_task(self._finish(answer))
        self.keep(task)
        if inspect.iscoroutine(answer):
            # In case it was cancelled before it began; else this does nothing.
            task.add_done_callback(lambda _: answer.close())
        if then is not None:
            task.add_done_callback(lambda _: then())

    async def _finish(self, answer: Awaitable[object]) -> None:
        try:
            await answer
        except Exception as exc:
            self.report(exc)

    def _drop(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if self.deployment is None and not self._tasks:
            self._hooks.remove(self._end_tasks_in_loop)

    async def _end(self) -> None:
        await self._hooks.close()
        self._is_closed = True
        await self._end_tasks()

    async def _end_tasks_in_loop(self) -> None:
        await asyncio.wrap_future(self._submit(self._end_tasks()))

    async def _end_tasks(self) -> None:
        rest = self._tasks - {asyncio.current_task()} - _protected.get()
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest)


async def wait_shielded(future: Future[T]) -> T:
    """Wait for *future*, which others wait for too; cancellation leaves it alone."""
    return await asyncio.shield(asyncio.wrap_future(future))


def protecting_current_task() -> contextvars.Context:
    """Return context variables in which the running task outlives its context."""
    variables = contextvars.copy_context()
    variables.run(_protected.set, _protected.get() | {asyncio.current_task()})
    return variables


def was_cancelled() -> bool:
    """Return whether the running task was cancelled, and not what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
