"""
The portal: a thread with an event loop, into which any other thread calls.

A portal belongs to the process that opened it.  A child that was forked finds neither
the thread nor a usable loop: whoever holds a portal asks `is_ours` and opens another.
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

#: How long an exiting program waits for adds on their way; twice a call's usual budget.
EXIT_SECONDS = 10.0

#: How often a main thread that waits looks for signals.  The system hands a signal to
#: any thread, and a main thread that sleeps is not always woken for it.
SIGNAL_SECONDS = 0.5

_CLOSED = (
    "the queue was closed while it was asked for something; the next call opens it"
)

#: Portals to be closed when the program ends.
_open: set[BackgroundLoop] = set()
#: Portals of a parent process.  They are kept: taking their loops and sockets apart
#: here would reach those of the parent, which are the same to the kernel.
_inherited: list[BackgroundLoop] = []
#: Held while a portal opens and while the process forks, so that no child inherits
#: half a portal.  A signal handler may take it while its thread holds it.
opening = threading.RLock()


class BackgroundLoop:
    """
    Runs coroutines for threads that have no event loop.

    Args:
        farewell: What is awaited last, on the loop, before the thread ends.
    """

    def __init__(self, farewell: Callable[[], Awaitable[None]]) -> None:
        self._farewell = farewell
        self._loop = new_event_loop()
        self._closing = asyncio.Event()
        self._failure: Exception | None = None
        # As `opening`: signal handlers tell a worker to stop.
        self._lock = threading.RLock()
        self._is_open = True
        self._pid = os.getpid()
        self._thread = threading.Thread(
            target=self._serve, name="kue-sync", daemon=True
        )
        self._thread.start()
        self._ident = self._thread.ident
        _open.add(self)

    @property
    def is_ours(self) -> bool:
        """Whether this process opened it."""
        return self._pid == os.getpid()

    @property
    def is_here(self) -> bool:
        """Whether this is its thread; a child's threads are called alike."""
        return self._ident == threading.get_ident() and self.is_ours

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """
        Run *work* on the loop, and return or raise what it does.

        Ctrl-C while it waits cancels *work*.

        Raises:
            StoreUnavailable: The portal was closed, before or meanwhile.
        """
        return wait(self.start(work))

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run *work* on the loop and do not wait for it."""
        with self._lock:
            if self._is_open:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise StoreUnavailable(_CLOSED)

    def tell(self, function: Callable[[], object]) -> None:
        """Have *function* called on the loop soon; from any thread, even the loop's."""
        with self._lock:
            if self._is_open:
                self._loop.call_soon_threadsafe(function)

    def close(self, timeout: float | None = None) -> None:
        """
        Say farewell, end what is left, and wait *timeout* seconds for the thread.

        Raises:
            Whatever the farewell raised.
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

    def _serve(self) -> None:
        life = self._loop.create_task(self._live(), name="kue sync")
        while not life.done():
            try:
                self._loop.run_until_complete(life)
            except (SystemExit, KeyboardInterrupt):
                # A callback's wish to exit ends the loop; other threads wait for it.
                logger.exception("a callback tried to end the thread of q.sync")
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _live(self) -> None:
        await self._closing.wait()
        try:
            await self._farewell()
        except Exception as exc:
            self._failure = exc
        # Whoever still waits must not wait for ever.
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
        # Done, unless it was interrupted; then nobody waits for it any more.
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
    """Tell whether this thread runs an event loop, which must not be blocked."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def refuse_on_a_loop(instead: str, *, blocking: str = "this call") -> None:
    """
    Refuse to block an event loop.

    Raises:
        RuntimeError: This thread runs one; the message says what to write *instead*.
    """
    if runs_a_loop():
        raise RuntimeError(
            f"{blocking} would block the event loop that runs in this thread; "
            f"write {instead} instead"
        )


def _close_all() -> None:
    """Let adds on their way arrive before the program ends."""
    for portal in tuple(_open):
        try:
            portal.close(EXIT_SECONDS)
        except Exception as exc:
            logger.warning("q.sync was not closed well: %s", exc)


def _begin_as_child() -> None:
    _inherited.extend(_open)
    _open.clear()
    opening.release()


atexit.register(_close_all)
# Windows knows no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=opening.acquire,
        after_in_parent=opening.release,
        after_in_child=_begin_as_child,
    )
