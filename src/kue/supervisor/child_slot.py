"""Child slot: keeps one child process running, with restart backoff."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from kue.aio.tasks import wait_for_first
from kue.supervisor.protocol import Hello

if TYPE_CHECKING:
    from kue.supervisor.child_process import ChildProcess
    from kue.supervisor.protocol import StartFailed

logger = logging.getLogger(__name__)

#: Seconds before a child is started again: the first time, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
#: After a child that lived this long, the next pause is short again.
STABLE_SECONDS = 60.0


class ChildSource(Protocol):
    """Starts children; implemented by `ChildPool`."""

    #: Whether children stop by themselves once there is nothing left to do.
    is_burst: bool

    async def start(self, number: int) -> ChildProcess: ...

    async def handle_failed_start(
        self, child: ChildProcess, failure: StartFailed, pause: float
    ) -> None:
        """Report that *child* did not come up; return when it is time to try again."""


class RestartBackoff:
    """How long to wait before the next start."""

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE

    def after(self, age: float) -> float:
        """Return the pause after a child that died at *age*."""
        if age >= STABLE_SECONDS:
            self._pause = FIRST_PAUSE
        pause = self._pause
        self._pause = min(pause * 2, LONGEST_PAUSE)
        return pause


class ChildSlot:
    """Keeps a child running: starts it, replaces it, restarts it when it died."""

    def __init__(
        self, number: int, source: ChildSource, *, is_added: bool = False
    ) -> None:
        self.number = number
        #: Added when jobs waited, and its first child is not up yet.
        self.is_added = is_added
        #: The current child, or the last one.
        self.child: ChildProcess | None = None
        #: Whether nothing is left to do here.
        self.is_over = False
        #: Its child was ordered to stop through the store.
        self.is_dismissed = False
        self._source = source
        self._backoff = RestartBackoff()
        self._replacement_requested = asyncio.Event()
        self._replacement: asyncio.Future[bool] | None = None
        #: How long jobs of a child that is replaced may run on.
        self._grace: float | None = None

    @property
    def is_healthy(self) -> bool:
        """Whether a child is up, or none is needed any more, or not yet."""
        is_up = self.child is not None and self.child.is_up
        return is_up or self.is_over or self.is_added

    async def run(self) -> None:
        """Return when there is nothing left to do; cancelling it stops no child."""
        try:
            child = await self._fill()
            while not await self._is_over(child):
                child = await self._next(child)
            self.is_over = True
        finally:
            self._replaced(False)

    def replace(self, grace: float | None) -> asyncio.Future[bool]:
        """Have a new child take over, and return whether it came up, once known."""
        if self._replacement is None:
            self._replacement, self._grace = asyncio.Future(), grace
            self._replacement_requested.set()
        return self._replacement

    @property
    def is_replacing(self) -> bool:
        return self._replacement is not None

    def _replaced(self, is_done: bool) -> None:
        if self._replacement is not None and not self._replacement.done():
            self._replacement.set_result(is_done)
        self._replacement = None
        self._replacement_requested.clear()

    async def _fill(self) -> ChildProcess:
        child: ChildProcess | None = None
        while child is None:
            # A child that started before the request may have read old code.
            is_replacement = self.is_replacing
            child = await self._start()
        self.child = child
        if is_replacement:
            self._replaced(True)
        return child

    async def _start(self) -> ChildProcess | None:
        """Try once; on failure log it, pause and return None."""
        try:
            child = await self._source.start(self.number)
        except OSError as exc:
            # The system has too many processes, or no memory.
            self.is_added = False
            pause = self._backoff.after(0)
            logger.error(
                "no process can be started, next try in %.1f s: %s", pause, exc
            )
            await asyncio.sleep(pause)
            return None
        started = await child.up
        self.is_added = False
        if isinstance(started, Hello):
            return child
        pause = self._backoff.after(child.age)
        await self._source.handle_failed_start(child, started, pause)
        return None

    async def _is_over(self, child: ChildProcess) -> bool:
        """Wait until *child* leaves or must be replaced; return whether all is done."""
        await wait_for_first(child.leaving.wait(), self._replacement_requested.wait())
        if child.is_ordered_to_stop:
            self.is_dismissed = True
            await child.gone.wait()
            return True
        if not self._source.is_burst or not child.leaving.is_set():
            return False
        # Its reason is known once it has left.
        await child.gone.wait()
        return child.bye is not None and child.bye.reason == "drained"

    async def _next(self, child: ChildProcess) -> ChildProcess:
        if not child.leaving.is_set():
            return await self._swap(child)
        if child.gone.is_set() and child.bye is None:
            await asyncio.sleep(self._backoff.after(child.age))
        return await self._fill()

    async def _swap(self, child: ChildProcess) -> ChildProcess:
        """Start the new child first: one that does not come up replaces nothing."""
        grace = self._grace
        new = await self._start()
        if new is None:
            logger.error("%s goes on: its replacement did not come up", child)
        else:
            self.child = new
            child.leave(grace)
        self._replaced(new is not None)
        return new or child
