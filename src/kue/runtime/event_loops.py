"""Event loops of a runtime: one per thread, or the loop that opened it."""

from __future__ import annotations

import asyncio
import itertools
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kue.aio.loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import Callable


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
        self._threads = [
            LoopThread(f"kue-loop-{n}", factory=factory) for n in range(count)
        ]
        self.hosts = [LoopHost(it.loop, it.ident, it.name) for it in self._threads]
        if not self.hosts:
            here = threading.current_thread()
            host = LoopHost(asyncio.get_running_loop(), here.ident or 0, here.name)
            self.hosts.append(host)
        self._cycle = itertools.cycle(self.hosts)
        self._lock = threading.Lock()

    def next(self) -> LoopHost:
        with self._lock:
            return next(self._cycle)

    async def close(self) -> None:
        """End the threads, and wait for all but the calling one."""
        for thread in self._threads:
            thread.stop()
        for thread in self._threads:
            if thread.ident != threading.get_ident():
                await asyncio.to_thread(thread.join)
