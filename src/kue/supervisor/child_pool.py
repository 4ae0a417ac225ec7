"""Child pool: all child slots, and every child process that lives."""

from __future__ import annotations

import asyncio
import logging
from itertools import count, islice
from typing import TYPE_CHECKING

from kue.supervisor.child_process import ChildProcess
from kue.supervisor.child_slot import ChildSlot
from kue.supervisor.options import ProcessCount
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
        self._slot_tasks: dict[ChildSlot, asyncio.Task[None]] = {}
        #: Whether slots can be added: while others work, and nothing stops them.
        self._is_open = False
        self._heartbeat_tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._last_failure: StartFailed | None = None

    async def work(self) -> None:
        """Keep every slot filled until there is nothing left to do, or `stop`."""
        self._is_open = True
        for slot in self.slots:
            self._run(slot)
        while running := {one for one in self._slot_tasks.values() if not one.done()}:
            await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        self._is_open = False

    def _run(self, slot: ChildSlot) -> None:
        name = f"kue slot {slot.number}"
        self._slot_tasks[slot] = self._group.create_task(slot.run(), name=name)

    def stop(self, grace: float) -> None:
        """Start no more children; let those at work leave, with *grace*."""
        for task in self._slot_tasks.values():
            task.cancel()
        self._is_open = False
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
        for slot in list(self.slots):
            if slot.is_over:
                continue
            # A slot may be removed in the meantime, which is not a failure.
            if not await slot.replace(self._options.grace) and not slot.is_over:
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

    # -- scaling -----------------------------------------------------------------

    @property
    def count(self) -> ProcessCount:
        """
        How many processes take jobs or start to, and how many may.

        A process that was ordered to stop through the store is not replaced: from then
        on there is room for one less.
        """
        dismissed = sum(slot.is_dismissed for slot in self.slots)
        most = max(0, self._options.most - dismissed)
        least = min(self._options.processes, most)
        return ProcessCount(len(self._open_slots), least, most)

    @property
    def is_growing(self) -> bool:
        """Whether processes are starting that were added by `grow`."""
        return any(slot.is_added for slot in self._open_slots)

    @property
    def room(self) -> int:
        """How many processes can be added; those that finish their jobs count, too."""
        numbers = {slot.number for slot in self.slots}
        leaving = sum(child.number not in numbers for child in self.children)
        return max(0, self.count.most - self.count.now - leaving)

    def grow(self, number: int) -> int:
        """Add up to *number* processes; return how many."""
        if not self._is_open:
            return 0
        taken = {slot.number for slot in self.slots}
        taken |= {child.number for child in self.children}
        free = (number for number in count(1) if number not in taken)
        added = [
            ChildSlot(number, self, is_added=True)
            for number in islice(free, min(number, self.room))
        ]
        self.slots += added
        for slot in added:
            self._run(slot)
        return len(added)

    def shrink(self) -> bool:
        """Let one process leave when its jobs have ended; return whether one does."""
        slot = self._spare_slot()
        if slot is None or not self._is_open:
            return False
        slot.is_over = True
        self.slots.remove(slot)
        self._slot_tasks.pop(slot).cancel()
        if slot.child is not None and slot.child.is_up:
            # Nobody is in a hurry: its jobs may take as long as they need.
            slot.child.leave(None)
        return True

    @property
    def _open_slots(self) -> list[ChildSlot]:
        return [slot for slot in self.slots if not (slot.is_over or slot.is_dismissed)]

    def _spare_slot(self) -> ChildSlot | None:
        """
        Return the slot to give up: one without a child, else the one with fewest jobs.

        Never the last that works, nor one whose child is starting: that one may have
        claimed jobs before its hello is read.
        """
        slots = [slot for slot in self._open_slots if not slot.is_replacing]
        living = {child.number for child in self.children}
        for slot in reversed(slots):
            if slot.number not in living:
                return slot
        working = [
            (slot.child.running, -slot.number, slot)
            for slot in slots
            if slot.child is not None and slot.child.is_working
        ]
        return min(working)[2] if len(working) > 1 else None

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
