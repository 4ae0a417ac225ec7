"""
Contexts: where handlers run.

A context belongs to one event loop for life; whoever registers a handler in it (a
timer, a consumer) has it called there again.  A worker context has a thread of a pool
instead, never two at once, and keeps the order.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from abc import ABC, abstractmethod
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from kue.runtime.errors import RuntimeClosed
from kue.runtime.loops import end
from kue.runtime.pool import Ordered, Pool, fulfil

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kue.runtime.deploying import Deployment
    from kue.runtime.hooks import CloseHooks, Hook
    from kue.runtime.loops import Place
    from kue.runtime.runtime import Runtime

logger = logging.getLogger(__name__)

A = TypeVarTuple("A")
T = TypeVar("T")

_current: contextvars.ContextVar[Context | None] = contextvars.ContextVar(
    "kue context", default=None
)
#: Tasks that ask for the end of a context they run in: they are let finish.
_spared: contextvars.ContextVar[frozenset[object]] = contextvars.ContextVar(
    "kue spared tasks", default=frozenset()
)


def current_context() -> Context | None:
    """Return the context that this code runs in; None outside of any."""
    return _current.get()


class Context(ABC):
    """
    Where the handlers of one verticle run, or those that were registered together.

    Args:
        hooks: Called when the context ends: its verticle's, or the runtime's.
        blocking: Where `execute_blocking` runs what it is given.
        config: What the verticle was given when it was deployed.
    """

    is_worker = False

    def __init__(
        self,
        runtime: Runtime,
        place: Place,
        *,
        hooks: CloseHooks,
        blocking: Pool,
        deployment: Deployment | None = None,
        config: dict[str, Any] | None = None,
    ) -> None:
        self.runtime = runtime
        #: The loop on which its timers wait; handlers too, unless it is a worker's.
        self.place = place
        self.deployment = deployment
        self.config: dict[str, Any] = {} if config is None else config
        #: For whoever runs in it; it is nobody else's.
        self.data: dict[str, Any] = {}
        #: Told of what a handler raises, instead of the runtime's or the log.
        self.exception_handler: Callable[[BaseException], object] | None = None
        self._hooks = hooks
        self._blocking = blocking
        self._blocking_in_order = Ordered(blocking)
        self._is_closed = False

    def __repr__(self) -> str:
        kind = "worker" if self.is_worker else self.place.name
        return f"<context of {self.deployment or 'nobody'} on {kind}>"

    @property
    def deployment_id(self) -> str | None:
        return None if self.deployment is None else self.deployment.id

    # -- running ---------------------------------------------------------------

    @abstractmethod
    def run(self, function: Callable[[Unpack[A]], object], *args: *A) -> None:
        """
        Have *function*, plain or async, called in this context soon, from any thread.

        Calls are made in the order they were asked for.  What it raises goes to the
        exception handler.

        Raises:
            RuntimeClosed: The context is closed.
        """

    async def call(self, function: Callable[[Unpack[A]], Awaitable[T]], *args: *A) -> T:
        """
        Call an async *function* in this context and return what it returns.

        From within the context it is called at once.

        Raises:
            RuntimeClosed: The context is closed, or was before it ended.
        """
        if self._is_here():
            return await function(*args)
        future = self._begin(partial(function, *args))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if was_asked_to_end():
                raise
            raise RuntimeClosed(f"{self!r} was closed meanwhile") from None

    async def execute_blocking(
        self,
        function: Callable[[Unpack[A]], T],
        *args: *A,
        ordered: bool = True,
    ) -> T:
        """
        Call *function*, which blocks, in a worker thread and return what it returns.

        What one context asks for is done one after another, in order; without
        *ordered* side by side with whatever else there is.
        """
        line = self._blocking_in_order if ordered else self._blocking
        return await on_thread(line, partial(function, *args), self.variables())

    # -- its end ---------------------------------------------------------------

    def add_close_hook(self, hook: Hook) -> None:
        """Have *hook* called when the context ends, after its verticle was stopped."""
        self._hooks.add(hook)

    def remove_close_hook(self, hook: Hook) -> None:
        self._hooks.remove(hook)

    @abstractmethod
    async def close(self) -> None:
        """Call the hooks, and end what still runs; only for contexts of a verticle."""

    # -- for those who build on it ---------------------------------------------

    def variables(self) -> contextvars.Context:
        """Return the caller's context variables, with this as the current context."""
        variables = contextvars.copy_context()
        variables.run(_current.set, self)
        return variables

    def report(self, error: BaseException) -> None:
        """Tell the exception handler of what a handler raised."""
        handler = self.exception_handler or self.runtime.exception_handler
        try:
            if handler is None:
                logger.error("a handler failed in %r", self, exc_info=error)
            else:
                handler(error)
        except Exception:
            logger.exception("the exception handler of %r failed", self)

    @abstractmethod
    def _begin(self, function: Callable[[], Awaitable[T]]) -> Future[T]:
        """Have *function* called and return what will know how it ends."""

    @abstractmethod
    def _is_here(self) -> bool:
        """Tell whether this code runs in the context, on its loop."""

    def _check(self) -> None:
        if self._is_closed or self.runtime.is_closed:
            raise RuntimeClosed(f"{self!r} is closed")


class LoopContext(Context):
    """A context on an event loop: handlers take turns when they await."""

    def __init__(self, runtime: Runtime, place: Place, **rest: Any) -> None:
        super().__init__(runtime, place, **rest)
        self._tasks: set[asyncio.Task[Any]] = set()

    def run(self, function: Callable[[Unpack[A]], object], *args: *A) -> None:
        self._check()
        bound = partial(function, *args)
        loop = self.place.loop
        call = loop.call_soon if runs_here(loop) else loop.call_soon_threadsafe
        try:
            call(self._invoke, bound, context=self.variables())
        except RuntimeError:
            raise RuntimeClosed(f"the loop of {self!r} is closed") from None

    def _invoke(self, function: Callable[[], object]) -> None:
        try:
            answer = function()
            if inspect.isawaitable(answer):
                self._keep(self.place.loop.create_task(self._finish(answer)))
        except Exception as exc:
            self.report(exc)

    async def _finish(self, answer: Awaitable[object]) -> None:
        try:
            await answer
        except Exception as exc:
            self.report(exc)

    def _begin(self, function: Callable[[], Awaitable[T]]) -> Future[T]:
        self._check()
        work = self._complete(function)
        try:
            return self.variables().run(
                asyncio.run_coroutine_threadsafe, work, self.place.loop
            )
        except RuntimeError:
            work.close()
            raise RuntimeClosed(f"the loop of {self!r} is closed") from None

    async def _complete(self, function: Callable[[], Awaitable[T]]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._keep(task)
        return await function()

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._drop)
        if self.deployment is None:
            # Nobody else knows of it: it ends with the runtime.
            self._hooks.add(self._end_tasks_there)

    def _drop(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if self.deployment is None and not self._tasks:
            self._hooks.remove(self._end_tasks_there)

    def _is_here(self) -> bool:
        return _current.get() is self and runs_here(self.place.loop)

    async def close(self) -> None:
        await self.call(self._end)

    async def _end(self) -> None:
        await self._hooks.close()
        self._is_closed = True
        await self._end_tasks()

    async def _end_tasks_there(self) -> None:
        await self.call(self._end_tasks)

    async def _end_tasks(self) -> None:
        rest = self._tasks - {asyncio.current_task()} - _spared.get()
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest)


class WorkerContext(Context):
    """
    A context on the threads of a pool: a handler ends before the next begins.

    An async handler gets an event loop that runs for as long as the handler does; a
    task that it leaves behind goes on only while another handler runs.
    """

    is_worker = True

    def __init__(
        self, runtime: Runtime, place: Place, *, pool: Pool, **rest: Any
    ) -> None:
        super().__init__(runtime, place, **rest)
        self._line = Ordered(pool)
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, function: Callable[[Unpack[A]], object], *args: *A) -> None:
        self._check()
        bound = partial(function, *args)
        self._line.submit(partial(self.variables().run, self._invoke, bound))

    def _invoke(self, function: Callable[[], object]) -> None:
        try:
            # A plain function is called where no loop runs: it may well start one.
            answer = function()
            if inspect.isawaitable(answer):
                self._complete(answer)
        except BaseException as exc:
            # Even a wish to exit: the thread serves others too.
            self.report(exc)

    def _begin(self, function: Callable[[], Awaitable[T]]) -> Future[T]:
        self._check()
        future: Future[T] = Future()
        variables = self.variables()

        def work() -> T:
            return variables.run(self._invoke_async, function)

        self._line.submit(partial(fulfil, future, work))
        return future

    def _invoke_async(self, function: Callable[[], Awaitable[T]]) -> T:
        return self._complete(function())

    def _complete(self, answer: Awaitable[T]) -> T:
        if self._loop is None:
            self._loop = self.runtime.loop_factory()
        return self._loop.run_until_complete(_awaited(answer))

    def _is_here(self) -> bool:
        return (
            _current.get() is self and self._loop is not None and runs_here(self._loop)
        )

    async def close(self) -> None:
        await self.call(self._hooks.close)
        self._is_closed = True
        ended: Future[None] = Future()
        # After the handler that asked for it, if that is who did.
        self._line.submit(partial(fulfil, ended, self._end_loop))
        if not self._is_here():
            await asyncio.wrap_future(ended)

    def _end_loop(self) -> None:
        if self._loop is not None:
            end(self._loop)


async def on_thread(
    line: Pool | Ordered, function: Callable[[], T], variables: contextvars.Context
) -> T:
    """
    Call *function* on a thread of *line* and return what it returns.

    Raises:
        TypeError: It is a coroutine function, which blocks nobody.
    """
    if inspect.iscoroutinefunction(getattr(function, "func", function)):
        raise TypeError(f"{function!r} is async: await it, it need not be executed")
    future: Future[T] = Future()
    line.submit(partial(fulfil, future, partial(variables.run, function)))
    return await asyncio.wrap_future(future)


def sparing_me() -> contextvars.Context:
    """Return context variables under which the running task outlives its context."""
    variables = contextvars.copy_context()
    variables.run(_spared.set, _spared.get() | {asyncio.current_task()})
    return variables


def runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Tell whether *loop* is the one that runs in this thread."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def was_asked_to_end() -> bool:
    """Tell whether the running task was cancelled, and not what it waits for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _awaited(answer: Awaitable[T]) -> T:
    return await answer
