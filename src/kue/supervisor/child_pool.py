"""Child pool: all child slots, and every child process that lives."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from kue.supervisor.child_process import ChildProcess
from kue.supervisor.child_slot import ChildSlot
from kue.supervisor.protocol import Hello

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.supervisor.child_lease_renewal import ChildHeartbeats
    from kue.supervisor.options import SupervisorOptions
    from kue.supervisor.protocol import StartFailed

logger = logging.getLogger(__name__)

#: How long deregistering may take when all children are gone.
DEREGISTER_SECONDS = 1.0


class ChildPool:
    """Starts children and tracks them until they are gone."""

    def __init__(
        self,
        options: SupervisorOptions,
        heartbeats: ChildHeartbeats,
        group: asyncio.TaskGroup,
        *,
        on_failed_start: Callable[[StartFailed], None],
    ) -> None:
        self.is_burst = options.burst
        self.slots = [ChildSlot(n + 1, self) for n in range(options.processes)]
        #: Those at work, those that are leaving and those that are starting.
        self.children: set[ChildProcess] = set()
        #: The hello of the first child that came up.
        self.first: asyncio.Future[Hello] = asyncio.Future()
        #: Whether all children exited cleanly when the pool was stopped.
        self.is_clean = True
        self._is_stopping = False
        self._options = options
        self._heartbeats = heartbeats
        self._group = group
        self._on_failed_start = on_failed_start
        self._slot_tasks: list[asyncio.Task[None]] = []
        self._heartbeat_tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._last_failure: StartFailed | None = None

    async def work(self) -> None:
        """Keep every slot filled until there is nothing left to do, or `stop`."""
        self._slot_tasks = [
            self._group.create_task(slot.run(), name=f"kue slot {slot.number}")
            for slot in self.slots
        ]
        await asyncio.gather(*self._slot_tasks, return_exceptions=True)

    def stop(self, grace: float) -> None:
        """Start no more children; let those at work leave, with *grace*."""
        for task in self._slot_tasks:
            task.cancel()
        self._is_stopping = True
        for child in self.children:
            self._stop_child(child, grace)

    def _stop_child(self, child: ChildProcess, grace: float) -> None:
        if child.is_up:
            child.leave(grace)
        else:
            # It runs no jobs, and may be deep in an import.
            child.kill()

    def kill(self) -> None:
        for child in self.children:
            child.kill()

    async def roll(self) -> bool:
        """
        Replace all children, one after the other, each before its old one leaves.

        Returns whether all were; the first that does not come up ends it.
        """
        for slot in self.slots:
            if slot.is_over:
                continue
            if not await slot.replace(self._options.grace):
                return False
            for child in list(self.children):
                if child.number == slot.number and child is not slot.child:
                    await child.gone.wait()
        return True

    def reload(self) -> None:
        """Stop all children: the code has changed, and their slots start new ones."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for child in self.children:
            self._stop_child(child, self._options.grace)

    async def gone(self) -> None:
        """Return when all children are gone and, if the store answers, deregistered."""
        while self.children:
            await next(iter(self.children)).gone.wait()
            # Lets `_serve` remove it from the set.
            await asyncio.sleep(0)
        if self._heartbeat_tasks:
            await asyncio.wait(self._heartbeat_tasks, timeout=DEREGISTER_SECONDS)
        for task in self._heartbeat_tasks:
            task.cancel()

    # -- for slots -------------------------------------------------------------

    async def start(self, number: int) -> ChildProcess:
        child = await ChildProcess.start(number, self._options)
        child.outdated = self._changed
        self.children.add(child)
        self._group.create_task(self._serve(child), name=f"kue serve {child.pid}")
        renewing = self._group.create_task(self._renew(child))
        self._heartbeat_tasks.add(renewing)
        renewing.add_done_callback(self._heartbeat_tasks.discard)
        return child

    async def handle_failed_start(
        self, child: ChildProcess, failure: StartFailed, pause: float
    ) -> None:
        child.kill()
        await child.gone.wait()
        if not self.first.done() and not self._options.reload:
            self._on_failed_start(failure)
            # The calling slot is about to be cancelled.
            await asyncio.Event().wait()
        if child.outdated.is_set():
            return
        # The same traceback again and again would hide other records.
        is_new = failure != self._last_failure
        self._last_failure = failure
        logger.error(
            "%s did not start: %s%s",
            child,
            failure.message,
            "; waiting for a change" if self._options.reload else "",
            extra={"detail": failure.detail if is_new else ""},
        )
        if self._options.reload:
            await child.outdated.wait()
        else:
            await asyncio.sleep(pause)

    async def _renew(self, child: ChildProcess) -> None:
        hello = await child.up
        if isinstance(hello, Hello):
            self._last_failure = None
            if not self.first.done():
                self.first.set_result(hello)
            await self._heartbeats.renew_while_alive(child, hello)

    async def _serve(self, child: ChildProcess) -> None:
        try:
            await child.serve()
        finally:
            self.children.discard(child)
        if child.hello is None or child.bye is not None:
            return
        if self._is_stopping:
            self.is_clean = False
        running = child.status.get("running", 0)
        detail = child.failure.detail if child.failure else ""
        logger.error(
            "%s %s after %.0f s%s",
            child,
            child.ending,
            child.age,
            f"; {running} jobs that it ran will run again" if running else "",
            extra={"worker": child.worker, "detail": detail},
        )
