"""
Threads for plain functions.

They are daemons, unlike those of `concurrent.futures`, which Python joins on its way
out: a handler that never returns must not keep its worker from leaving.
"""

from __future__ import annotations

import asyncio
import contextvars
import ctypes
import queue
import threading
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Interrupted(BaseException):
    """
    Raised inside a plain handler that was told to end: cancelled, timed out, lost.

    It comes between two steps of Python code, so a call into C ends first.  No
    `Exception`, so that ``except Exception`` in a handler does not swallow it.
    """


class WorkerThreads:
    """A thread for each call that runs at the moment; idle ones are used again."""

    def __init__(self) -> None:
        self._idle: list[_Thread] = []
        self._busy: set[asyncio.Future[Any]] = set()
        self._running: set[_Thread] = set()

    async def call(self, function: Callable[[], T]) -> T:
        """
        Run *function* in a thread and return what it returns.

        When the caller is cancelled the function is interrupted, and this returns or
        raises only once it has ended: until then its thread is taken.
        """
        thread = self._idle.pop() if self._idle else _Thread()
        answer = thread.begin(function)
        self._busy.add(answer)
        self._running.add(thread)
        while not answer.done():
            try:
                await asyncio.wait([answer])
            except asyncio.CancelledError:
                thread.interrupt()
        self._busy.discard(answer)
        self._running.discard(thread)
        self._idle.append(thread)
        result: T = answer.result()
        return result

    def contexts(self) -> dict[int, contextvars.Context]:
        """Return the threads that run something, with what each runs it in."""
        # A copy at once: others may look while we work.
        running = list(self._running)
        return {one.ident: one.context for one in running if one.context is not None}

    def close(self) -> None:
        """Let idle threads end, and wait no more for those that go on."""
        for thread in self._idle:
            thread.end()
        self._idle.clear()
        for answer in self._busy:
            _answer(answer, None, Interrupted())


class _Thread:
    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        #: In which the last call was made.
        self.context: contextvars.Context | None = None
        #: Whether an interruption would hit the handler, and nothing of ours.
        self._is_open = False
        self._thread = threading.Thread(
            target=self._serve, name="kue thread", daemon=True
        )
        self._thread.start()

    @property
    def ident(self) -> int:
        return self._thread.ident or 0

    def begin(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Have *function* run, with the context variables of the caller."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        context = self.context = contextvars.copy_context()

        def call() -> None:
            result, error = self._run(context, function)
            try:
                loop.call_soon_threadsafe(_answer, answer, result, error)
            except RuntimeError:
                # The loop is closed: nobody is left who wants to know.
                return

        self._calls.put(call)
        return answer

    def end(self) -> None:
        self._calls.put(None)

    def interrupt(self) -> None:
        """Raise `Interrupted` in the handler, if it still runs."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                _raise_in(self._thread, Interrupted)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            # What the last call held must not live until the next.
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
        except Interrupted as exc:
            # It came when the handler had just ended: how that ended stands.
            error = error or (None if result is not None else exc)
            self._close()
        return result, error

    def _close(self) -> None:
        with self._lock:
            self._is_open = False
            # One that was raised and has not arrived would hit what comes next.
            _raise_in(self._thread, None)


def _answer(
    answer: asyncio.Future[Any], result: Any, error: BaseException | None
) -> None:
    if answer.done():
        return
    # asyncio will not carry a StopIteration.
    if isinstance(error, StopIteration):
        error = RuntimeError(f"the handler raised {error!r}")
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


def _raise_in(thread: threading.Thread, kind: type[BaseException] | None) -> None:
    ident = ctypes.c_ulong(thread.ident or 0)
    exception = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, exception)
