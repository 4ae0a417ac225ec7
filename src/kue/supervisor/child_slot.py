"""A seat: one of the places where a child is to be at work."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from kue.supervisor.protocol import Hello

if TYPE_CHECKING:
    from kue.supervisor.child_process import ChildProcess
    from kue.supervisor.protocol import StartFailed

logger = logging.getLogger(__name__)

#: Seconds before a child is started again: the first time, and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
#: A child that lived so long did well; the next pause is a short one again.
GOOD_LIFE = 60.0


class ChildSource(Protocol):
    """Where children come from."""

    #: Whether children end by themselves, once there is nothing left to do.
    is_burst: bool

    async def start(self, number: int) -> ChildProcess: ...

    async def excuse(
        self, child: ChildProcess, failure: StartFailed, pause: float
    ) -> None:
        """Say that *child* did not come up; return when to try again."""


class Replacement:
    """A fresh child is to take over, and the old one to leave, with *grace*."""

    def __init__(self, grace: float | None) -> None:
        self.grace = grace
        #: Whether the fresh one came up, once that is known.
        self.done: asyncio.Future[bool] = asyncio.Future()


class RestartBackoff:
    """How long to wait before the next start."""

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE

    def after(self, age: float) -> float:
        """Return the pause after a child that died at *age*."""
        if age >= GOOD_LIFE:
            self._pause = FIRST_PAUSE
        pause = self._pause
        self._pause = min(pause * 2, LONGEST_PAUSE)
        return pause


class ChildSlot:
    """Keeps a child at work: starts it, replaces it, starts it again when it died."""

    def __init__(self, number: int, source: ChildSource) -> None:
        self.number = number
        #: Who works here, or did last.
        self.child: ChildProcess | None = None
        #: Nothing is left to do here.
        self.is_over = False
        self._source = source
        self._backoff = RestartBackoff()
        self._asked = asyncio.Event()
        self._replacement: Replacement | None = None

    @property
    def is_well(self) -> bool:
        """Whether someone is at work, or need not be any more."""
        return self.is_over or (self.child is not None and self.child.is_up)

    async def keep(self) -> None:
        """Return when there is nothing left to do; being cancelled stops no child."""
        try:
            child = await self._fill()
            while not await self._is_over(child):
                child = await self._next(child)
            self.is_over = True
        finally:
            self._replaced(False)

    def replace(self, grace: float | None) -> Replacement:
        """Have a fresh child take over; asked twice, it is done once."""
        if self._replacement is None:
            self._replacement = Replacement(grace)
            self._asked.set()
        return self._replacement

    @property
    def is_replacing(self) -> bool:
        return self._replacement is not None

    def _replaced(self, is_done: bool) -> None:
        if self._replacement is not None and not self._replacement.done.done():
            self._replacement.done.set_result(is_done)
        self._replacement = None
        self._asked.clear()

    async def _fill(self) -> ChildProcess:
        child: ChildProcess | None = None
        while child is None:
            # One that began before it was asked for may have read old code.
            is_fresh = self.is_replacing
            child = await self._start()
        self.child = child
        if is_fresh:
            self._replaced(True)
        return child

    async def _start(self) -> ChildProcess | None:
        """Try once; what failed has been told and paused for."""
        try:
            child = await self._source.start(self.number)
        except OSError as exc:
            await self._despair(exc)
            return None
        said = await child.up
        if isinstance(said, Hello):
            return child
        await self._source.excuse(child, said, self._backoff.after(child.age))
        return None

    async def _despair(self, exc: OSError) -> None:
        """The system has no process for us: too many, or no memory left."""
        pause = self._backoff.after(0)
        logger.error("no process can be started, next try in %.1f s: %s", pause, exc)
        await asyncio.sleep(pause)

    async def _is_over(self, child: ChildProcess) -> bool:
        """Wait for a reason to act, and say whether it is that all is done."""
        await _any(child.leaving, self._asked)
        if child.is_dismissed:
            await child.gone.wait()
            return True
        if not self._source.is_burst or not child.leaving.is_set():
            return False
        # Why it leaves is known when it has.
        await child.gone.wait()
        return child.bye is not None and child.bye.reason == "drained"

    async def _next(self, child: ChildProcess) -> ChildProcess:
        if not child.leaving.is_set():
            return await self._swap(child)
        if child.gone.is_set() and child.bye is None:
            await asyncio.sleep(self._backoff.after(child.age))
        return await self._fill()

    async def _swap(self, child: ChildProcess) -> ChildProcess:
        """Start another first: what does not come up replaces nobody."""
        assert self._replacement is not None
        grace = self._replacement.grace
        fresh = await self._start()
        if fresh is None:
            logger.error("%s goes on: the one to replace it did not come up", child)
        else:
            self.child = fresh
            child.leave(grace)
        self._replaced(fresh is not None)
        return fresh or child


async def _any(*events: asyncio.Event) -> None:
    """Wait until one of them is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
