"""
Background event loop: a thread with a loop, into which any other thread calls.

It belongs to the process that opened it.  A forked child finds neither the thread nor a
usable loop: the owner checks `is_ours` and opens another.
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


class BackgroundLoop:
    """
    Runs coroutines for threads that have no event loop.

    Args:
        on_close: Awaited last, on the loop, before the thread ends.
    """

    def __init__(self, on_close: Callable[[], Awaitable[None]]) -> None:
        self._on_close = on_close
        self._loop = new_event_loop()
        self._closing = asyncio.Event()
        self._failure: Exception | None = None
        # Reentrant like `open_lock`: signal handlers stop workers.
        self._lock = threading.RLock()
        self._is_open = True
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._run, name="kue-sync", daemon=True)
        self._thread.start()
        self._ident = self._thread.ident
        _open.add(self)

    @property
    def is_ours(self) -> bool:
        """Whether this process opened it."""
        return self._pid == os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is its thread; in a forked child, thread ids repeat."""
        return self._ident == threading.get_ident() and self.is_ours

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """
        Run *work* on the loop, and return or raise what it does.

        Ctrl-C while it waits cancels *work*.

        Raises:
            StoreUnavailable: The loop was closed, before or during the call.
        """
        return wait(self.start(work))

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run *work* on the loop and do not wait for it."""
        with self._lock:
            if self._is_open:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise StoreUnavailable(_CLOSED)

    def call_soon(self, function: Callable[[], object]) -> None:
        """Schedule *function* on the loop; from any thread, even the loop's own."""
        with self._lock:
            if self._is_open:
                self._loop.call_soon_threadsafe(function)

    def close(self, timeout: float | None = None) -> None:
        """
        Call *on_close*, cancel what is left, wait *timeout* seconds for the thread.

        Raises:
            Whatever *on_close* raised.
        """
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(timeout)
        _open.discard(self)
        if self._failure is not None:
            raise self._failure

    # -- on the thread ---------------------------------------------------------

    def _run(self) -> None:
        main = self._loop.create_task(self._run_until_closed(), name="kue sync")
        while not main.done():
            try:
                self._loop.run_until_complete(main)
            except (SystemExit, KeyboardInterrupt):
                # A callback that exits ends the loop, for which other threads wait.
                logger.exception("a callback tried to end the thread of q.sync")
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _run_until_closed(self) -> None:
        await self._closing.wait()
        try:
            await self._on_close()
        except Exception as exc:
            self._failure = exc
        # Callers that still wait must not wait forever.
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)


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


def runs_a_loop() -> bool:
    """Return whether this thread runs an event loop, which must not be blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def refuse_on_a_loop(instead: str, *, blocking: str = "this call") -> None:
    """
    Refuse to block an event loop.

    Raises:
        RuntimeError: This thread runs one; the message has *instead*, what to write.
    """
    if runs_a_loop():
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
