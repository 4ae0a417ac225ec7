"""Event loops of a runtime: one per thread, or the loop that opened it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoopHost:
    """An event loop, and the thread that runs it."""

    loop: asyncio.AbstractEventLoop
    thread: int
    name: str


class EventLoops:
    """
    Hands out loops round robin.

    Args:
        count: How many threads; 0 means that the loop of the caller is the only one.
    """

    def __init__(
        self, count: int, factory: Callable[[], asyncio.AbstractEventLoop]
    ) -> None:
        self._threads = [LoopThread(f"kue-loop-{n}", factory) for n in range(count)]
        hosts = tuple(thread.host for thread in self._threads)
        self.hosts = hosts or (_current_host(),)
        self._cycle = itertools.cycle(self.hosts)
        self._lock = threading.Lock()

    def next(self) -> LoopHost:
        with self._lock:
            return next(self._cycle)

    async def close(self) -> None:
        """End the threads, and wait for all but the calling one."""
        for thread in self._threads:
            thread.close()
        for thread in self._threads:
            if thread.host.thread != threading.get_ident():
                await asyncio.to_thread(thread.join)


class LoopThread:
    """A thread that runs an event loop from its start until `close`."""

    def __init__(
        self, name: str, factory: Callable[[], asyncio.AbstractEventLoop]
    ) -> None:
        self._loop = factory()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        self.host = LoopHost(self._loop, self._thread.ident or 0, name)

    def close(self) -> None:
        """Cancel running tasks, then end; may be called from the loop itself."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._closing.set)

    def join(self) -> None:
        self._thread.join()

    def _serve(self) -> None:
        name = f"{self._thread.name} close"
        task = self._loop.create_task(self._wait_closed(), name=name)
        while not task.done():
            try:
                self._loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt):
                # An exit by a handler would end the loop, which others use as well.
                logger.exception("a handler tried to end %s", self._thread.name)
        close_loop(self._loop)

    async def _wait_closed(self) -> None:
        await self._closing.wait()


def close_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel all tasks of *loop*, which is not running, wait for them, and close it."""
    loop.run_until_complete(_cancel_rest())
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


async def _cancel_rest() -> None:
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


def _current_host() -> LoopHost:
    thread = threading.current_thread()
    return LoopHost(asyncio.get_running_loop(), thread.ident or 0, thread.name)
