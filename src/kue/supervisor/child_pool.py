"""The staff: all seats, and every child that lives."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kue.supervisor.child_process import ChildProcess
from kue.supervisor.child_slot import ChildSlot
from kue.supervisor.protocol import Hello

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.supervisor.child_heartbeat import ChildHeartbeats
    from kue.supervisor.options import SupervisorOptions
    from kue.supervisor.protocol import StartFailed

logger = logging.getLogger(__name__)

#: How long the store may keep us when all children are gone.
FAREWELL_SECONDS = 1.0


class ChildPool:
    """Starts children and knows them until they are gone."""

    def __init__(
        self,
        options: SupervisorOptions,
        pacemaker: ChildHeartbeats,
        group: asyncio.TaskGroup,
        *,
        on_failed_start: Callable[[StartFailed], None],
    ) -> None:
        self.is_burst = options.burst
        self.seats = [ChildSlot(n + 1, self) for n in range(options.processes)]
        #: Those at work, those that leave and those that are about to start.
        self.children: set[ChildProcess] = set()
        #: What the first child to come up said.
        self.first: asyncio.Future[Hello] = asyncio.Future()
        #: Whether those who were let go at the end left in order.
        self.in_order = True
        self._is_disbanded = False
        self._options = options
        self._pacemaker = pacemaker
        self._group = group
        self._on_failed_start = on_failed_start
        self._keeping: list[asyncio.Task[None]] = []
        self._attending: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._last_failure: StartFailed | None = None

    async def work(self) -> None:
        """Keep every seat filled until there is nothing left to do, or `disband`."""
        self._keeping = [
            self._group.create_task(seat.keep(), name=f"kue seat {seat.number}")
            for seat in self.seats
        ]
        await asyncio.gather(*self._keeping, return_exceptions=True)

    def disband(self, grace: float) -> None:
        """Start nobody any more; let those at work leave, with *grace*."""
        for task in self._keeping:
            task.cancel()
        self._is_disbanded = True
        for child in self.children:
            self._let_go(child, grace)

    def _let_go(self, child: ChildProcess, grace: float) -> None:
        if child.is_up:
            child.leave(grace)
        else:
            # It has nothing in hand, and may be deep in an import.
            child.kill()

    def kill(self) -> None:
        for child in self.children:
            child.kill()

    async def roll(self) -> bool:
        """
        Replace all children, one after the other, each before its old one leaves.

        Returns whether all were; the first that does not come up ends it.
        """
        for seat in self.seats:
            if seat.is_over:
                continue
            if not await seat.replace(self._options.grace).done:
                return False
            for child in list(self.children):
                if child.number == seat.number and child is not seat.child:
                    await child.gone.wait()
        return True

    def reload(self) -> None:
        """The code has changed: nobody goes on with the old one."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for child in self.children:
            self._let_go(child, self._options.grace)

    async def gone(self) -> None:
        """Return when no child is left, and the store was told, if it listens."""
        while self.children:
            await next(iter(self.children)).gone.wait()
            # Let whoever serves it take it off the list.
            await asyncio.sleep(0)
        if self._attending:
            await asyncio.wait(self._attending, timeout=FAREWELL_SECONDS)
        for task in self._attending:
            task.cancel()

    # -- for seats -------------------------------------------------------------

    async def start(self, number: int) -> ChildProcess:
        child = await ChildProcess.start(number, self._options)
        child.outdated = self._changed
        self.children.add(child)
        self._group.create_task(self._serve(child), name=f"kue serve {child.pid}")
        attending = self._group.create_task(self._attend(child))
        self._attending.add(attending)
        attending.add_done_callback(self._attending.discard)
        return child

    async def excuse(
        self, child: ChildProcess, failure: StartFailed, pause: float
    ) -> None:
        child.kill()
        await child.gone.wait()
        if not self.first.done() and not self._options.reload:
            self._on_failed_start(failure)
            # Whoever asked is about to be cancelled.
            await asyncio.Event().wait()
        if child.outdated.is_set():
            return
        self._tell(child, failure)
        if self._options.reload:
            await child.outdated.wait()
        else:
            await asyncio.sleep(pause)

    def _tell(self, child: ChildProcess, failure: StartFailed) -> None:
        # The same lines again and again would hide what else is said.
        is_news = failure != self._last_failure
        self._last_failure = failure
        logger.error(
            "%s did not start: %s%s",
            child,
            failure.message,
            "; waiting for a change" if self._options.reload else "",
            extra={"detail": failure.detail if is_news else ""},
        )

    async def _attend(self, child: ChildProcess) -> None:
        hello = await child.up
        if isinstance(hello, Hello):
            self._last_failure = None
            if not self.first.done():
                self.first.set_result(hello)
            await self._pacemaker.attend(child)

    async def _serve(self, child: ChildProcess) -> None:
        try:
            await child.serve()
        finally:
            self.children.discard(child)
        if child.hello is not None and child.bye is None:
            self._mourn(child)

    def _mourn(self, child: ChildProcess) -> None:
        if self._is_disbanded:
            self.in_order = False
        running = child.status.get("running", 0)
        logger.error(
            "%s %s after %.0f s%s",
            child,
            child.ending,
            child.age,
            f"; {running} jobs that it ran will run again" if running else "",
            extra={"worker": child.worker, "detail": child.detail},
        )
