"""
Worker threads for plain functions.

They are daemons, unlike those of `concurrent.futures`, which Python joins when it
exits: a handler that never returns must not keep its worker from exiting.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import queue
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from kue.aio.loop_calls import hand_over
from kue.model.errors import SoftTimeout

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Interrupted(BaseException):
    """
    Raised inside a plain handler that is interrupted: cancelled, timed out, lost.

    It is raised between two steps of Python code, so a call into C ends first.  Not an
    `Exception`, so that ``except Exception`` in a handler does not swallow it.
    """


class WorkerThreads:
    """A thread for each running call; idle ones are reused."""

    def __init__(self) -> None:
        self._idle: list[_Thread] = []
        self._busy: dict[_Thread, asyncio.Future[Any]] = {}

    async def call(
        self,
        function: Callable[[], T],
        interruption: Callable[[], type[BaseException]] = lambda: Interrupted,
    ) -> T:
        """
        Run *function* in a thread and return what it returns.

        When the caller is cancelled, what *interruption* returns is raised in the
        function, and this returns or raises only once it has ended: until then its
        thread is taken.
        """
        thread = self._idle.pop() if self._idle else _Thread()
        future = self._busy[thread] = thread.begin(function)
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError:
                thread.interrupt(interruption())
        del self._busy[thread]
        self._idle.append(thread)
        result: T = future.result()
        return result

    def contexts(self) -> dict[int, contextvars.Context]:
        """Return the busy threads by id, with the context of each."""
        # A copy: the dict may change while another thread reads it.
        busy = list(self._busy)
        return {one.ident: one.context for one in busy if one.context is not None}

    def close(self) -> None:
        """End idle threads, and stop waiting for those that are busy."""
        for thread in self._idle:
            thread.end()
        self._idle.clear()
        for future in self._busy.values():
            _set_result(future, None, Interrupted())


class _Thread:
    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        #: The context of the last call.
        self.context: contextvars.Context | None = None
        #: Whether an interruption would hit the handler, and none of our own code.
        self._is_open = False
        self._thread = threading.Thread(
            target=self._serve, name="kue thread", daemon=True
        )
        self._thread.start()

    @property
    def ident(self) -> int:
        return self._thread.ident or 0

    def begin(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run *function* with the context variables of the caller."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = self.context = contextvars.copy_context()

        def call() -> None:
            result, error = self._run(context, function)
            hand_over(loop, _set_result, future, result, error)

        self._calls.put(call)
        return future

    def end(self) -> None:
        self._calls.put(None)

    def interrupt(self, kind: type[BaseException]) -> None:
        """Raise *kind* in the handler, if it still runs; `Interrupted` is the last."""
        with self._lock:
            if self._is_open:
                self._is_open = kind is not Interrupted
                _raise_in(self._thread, kind)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            # Objects that the last call holds must not live until the next.
            del call

    def _run(
        self, context: contextvars.Context, function: Callable[[], Any]
    ) -> tuple[Any, BaseException | None]:
        result: Any = None
        error: BaseException | None = None
        try:
            try:
                with self._lock:
                    self._is_open = True
                result = context.run(function)
            except BaseException as exc:
                error = exc
            self._close()
        except (Interrupted, SoftTimeout) as exc:
            # It was raised just after the handler ended: that outcome stands.
            error = error or (None if result is not None else exc)
            self._close()
        return result, error

    def _close(self) -> None:
        with self._lock:
            self._is_open = False
            # A pending interruption would otherwise hit the next call.
            _raise_in(self._thread, None)


def _set_result(
    future: asyncio.Future[Any], result: Any, error: BaseException | None
) -> None:
    if future.done():
        return
    # A future does not accept a StopIteration.
    if isinstance(error, StopIteration):
        error = RuntimeError(f"the handler raised {error!r}")
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


def _raise_in(thread: threading.Thread, kind: type[BaseException] | None) -> None:
    ident = ctypes.c_ulong(thread.ident or 0)
    exception = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, exception)
