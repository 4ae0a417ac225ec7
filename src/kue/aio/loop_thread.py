"""
Event loop in a thread, into which any other thread calls.

A `BackgroundLoop` belongs to the process that opened it.  A forked child finds neither
the thread nor a usable loop: the owner checks `is_ours` and opens another.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from kue.aio.event_loop import new_event_loop
from kue.aio.loop_calls import hand_over, running
from kue.aio.tasks import cancel_all
from kue.model.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from concurrent.futures import Future

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: How long an exiting program waits for pending adds; twice a call's usual budget.
EXIT_SECONDS = 10.0

#: How often a waiting main thread checks for signals.  The system delivers a signal
#: to any thread, and a sleeping main thread is not always woken for it.
SIGNAL_SECONDS = 0.5

_CLOSED = "the queue was closed; the next call opens it again"

#: Loops to be closed when the program ends.
_open: set[BackgroundLoop] = set()
#: Loops of a parent process.  They are kept: closing them and their sockets here would
#: affect those of the parent, which are the same to the kernel.
_inherited: list[BackgroundLoop] = []
#: Held while a loop opens and while the process forks, so that no child inherits a
#: half-open one.  A signal handler may acquire it while its thread holds it.
open_lock = threading.RLock()


class LoopThread:
    """
    A thread that runs an event loop from its creation until `stop`.

    Args:
        on_close: Awaited last, on the loop, before the rest is cancelled.
    """

    #: Whether its end waits for threads of the loop's default executor.
    waits_for_threads = True

    def __init__(
        self,
        name: str,
        *,
        factory: Callable[[], asyncio.AbstractEventLoop] = new_event_loop,
        on_close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self.loop = factory()
        self._on_close = on_close
        self._closing = asyncio.Event()
        self._failure: Exception | None = None
        # Reentrant like `open_lock`: signal handlers stop workers.
        self._lock = threading.RLock()
        self._is_open = True
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self.ident = self._thread.ident or 0

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """
        Run *work* on the loop and do not wait for it.

        Raises:
            The error of `_closed`: the thread was stopped.
        """
        with self._lock:
            if self._is_open:
                return asyncio.run_coroutine_threadsafe(work, self.loop)
        work.close()
        raise self._closed()

    def call_soon(self, function: Callable[..., object], *args: Any) -> bool:
        """Schedule *function* from any thread; return False after `stop`."""
        with self._lock:
            if self._is_open:
                self.loop.call_soon_threadsafe(function, *args)
            return self._is_open

    def stop(self) -> None:
        """Begin to end: call *on_close*, then cancel running tasks; from any thread."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                hand_over(self.loop, self._closing.set)

    def join(self, timeout: float | None = None) -> None:
        """
        Wait *timeout* seconds for the end of the thread.

        Raises:
            Whatever *on_close* raised.
        """
        self._thread.join(timeout)
        if self._failure is not None:
            raise self._failure

    def _closed(self) -> Exception:
        return RuntimeError(f"{self.name} was stopped")

    def _run(self) -> None:
        main = self.loop.create_task(self._run_until_closed(), name=f"{self.name} main")
        while not main.done():
            try:
                self.loop.run_until_complete(main)
            except (SystemExit, KeyboardInterrupt):
                # A callback that exits would end the loop, which others use as well.
                logger.exception("a callback tried to end %s", self.name)
        close_loop(self.loop, threads=self.waits_for_threads)

    async def _run_until_closed(self) -> None:
        await self._closing.wait()
        try:
            if self._on_close is not None:
                await self._on_close()
        except Exception as exc:
            self._failure = exc


class BackgroundLoop(LoopThread):
    """Runs coroutines for threads that have no event loop, until the program ends."""

    waits_for_threads = False

    def __init__(self, on_close: Callable[[], Awaitable[None]]) -> None:
        super().__init__("kue-sync", on_close=on_close)
        self._pid = os.getpid()
        _open.add(self)

    @property
    def is_ours(self) -> bool:
        """Whether this process opened it."""
        return self._pid == os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is its thread; in a forked child, thread ids repeat."""
        return self.ident == threading.get_ident() and self.is_ours

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """
        Run *work* on the loop, and return or raise what it does.

        Ctrl-C while it waits cancels *work*.

        Raises:
            StoreUnavailable: The loop was closed, before or during the call.
        """
        return wait(self.start(work))

    def close(self, timeout: float | None = None) -> None:
        """Stop, and wait *timeout* seconds; raise whatever *on_close* raised."""
        self.stop()
        self._thread.join(timeout)
        _open.discard(self)
        self.join(0)

    def _closed(self) -> Exception:
        return StoreUnavailable(_CLOSED)


def close_loop(loop: asyncio.AbstractEventLoop, *, threads: bool = True) -> None:
    """Cancel all tasks of *loop*, which is not running, wait for them, and close it."""
    loop.run_until_complete(cancel_all(asyncio.all_tasks(loop)))
    loop.run_until_complete(loop.shutdown_asyncgens())
    if threads:
        loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def wait(future: Future[T]) -> T:
    """Return or raise what *future* does; an interrupt cancels it."""
    try:
        return _result(future)
    except CancelledError:
        raise StoreUnavailable(_CLOSED) from None
    except BaseException:
        # Done, unless it was interrupted; then nobody waits for it.
        future.cancel()
        raise
    finally:
        # An error refers to this frame; the frame must not refer back.
        del future


def _result(future: Future[T]) -> T:
    """Wait for *future*, and for signals, which only the main thread handles."""
    if threading.current_thread() is not threading.main_thread():
        return future.result()
    while not future.done():
        with suppress(TimeoutError):
            return future.result(SIGNAL_SECONDS)
    return future.result()


def refuse_on_a_loop(instead: str, *, blocking: str = "this call") -> None:
    """
    Refuse to block an event loop.

    Raises:
        RuntimeError: This thread runs one; the message has *instead*, what to write.
    """
    if running() is not None:
        raise RuntimeError(
            f"{blocking} would block the event loop that runs in this thread; "
            f"write {instead} instead"
        )


def _close_all() -> None:
    """Let pending adds arrive before the program ends."""
    for loop in tuple(_open):
        try:
            loop.close(EXIT_SECONDS)
        except Exception as exc:
            logger.warning("q.sync did not close cleanly: %s", exc)


def _begin_as_child() -> None:
    _inherited.extend(_open)
    _open.clear()
    open_lock.release()


atexit.register(_close_all)
# Windows has no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=open_lock.acquire,
        after_in_parent=open_lock.release,
        after_in_child=_begin_as_child,
    )
