"""Watchdog: kills children that are stuck or overdue, replaces old or large ones."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakSet

if TYPE_CHECKING:
    from kue.supervisor.child_pool import ChildPool
    from kue.supervisor.child_process import ChildProcess
    from kue.supervisor.child_slot import ChildSlot
    from kue.supervisor.options import SupervisorOptions

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
#: How long a child may take to write its stacks before it is killed.
DUMP_SECONDS = 1.0
#: An import that takes longer may be a program that never returns.
LONG_IMPORT_SECONDS = 15.0


class Watchdog:
    """Checks all children, twice a second."""

    def __init__(self, options: SupervisorOptions, pool: ChildPool) -> None:
        self._options = options
        self._pool = pool
        self._killing: WeakSet[ChildProcess] = WeakSet()
        self._slow: WeakSet[ChildProcess] = WeakSet()
        #: Children that are silent for longer than a lease, and for how long.
        self._silent: WeakKeyDictionary[ChildProcess, float] = WeakKeyDictionary()

    async def run(self) -> None:
        looked_at = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = time.monotonic()
            elapsed, looked_at = now - looked_at, now
            for child in list(self._pool.children):
                child.look(elapsed)
                self._log_silence(child)
                self._check(child)
            for slot in self._pool.slots:
                self._recycle(slot)

    def _log_silence(self, child: ChildProcess) -> None:
        """Log once that a child is silent, and once that it no longer is."""
        if child.is_silent:
            if child not in self._silent:
                logger.warning(
                    "%s has not responded for %.0f s: a handler blocks it; "
                    "its lease is renewed all the same",
                    child,
                    child.silence,
                    extra={"worker": child.worker},
                )
            self._silent[child] = child.silence
        elif child in self._silent:
            silence = self._silent.pop(child)
            logger.warning("%s responds again after %.0f s", child, silence)

    def _check(self, child: ChildProcess) -> None:
        limit = self._options.stuck_after
        if child in self._killing:
            return
        if child.is_overdue:
            logger.error("%s did not leave in time; killing it", child)
            self._killing.add(child)
            child.kill()
        elif limit and child.silence > limit:
            self._dump_and_kill(child)
        elif child.hello is None and child.age > LONG_IMPORT_SECONDS:
            self._warn_of_slow_import(child)

    def _dump_and_kill(self, child: ChildProcess) -> None:
        """Kill a child whose event loop is blocked, but let it write its stacks."""
        logger.error(
            "%s is stuck: its event loop has been blocked for %.0f s; its stack "
            "follows, then it is killed",
            child,
            child.silence,
            extra={"worker": child.worker},
        )
        self._killing.add(child)
        child.dump()
        asyncio.get_running_loop().call_later(DUMP_SECONDS, self._kill, child)

    def _kill(self, child: ChildProcess) -> None:
        self._killing.discard(child)
        if child.silence > self._options.stuck_after:
            child.kill()

    def _warn_of_slow_import(self, child: ChildProcess) -> None:
        if child not in self._slow:
            self._slow.add(child)
            logger.warning(
                "%s is still importing %s after %.0f s; a module that runs something "
                'when it is imported should do so under if __name__ == "__main__"',
                child,
                self._options.target,
                child.age,
            )

    def _recycle(self, slot: ChildSlot) -> None:
        child = slot.child
        if child is None or not child.is_up or child.leaving.is_set():
            return
        why = self._reason(child)
        if why and not slot.is_replacing:
            logger.info("%s is replaced: %s", child, why)
            # Recycling is never urgent: running jobs may end.
            slot.replace(None)

    def _reason(self, child: ChildProcess) -> str:
        age, memory = self._options.max_age, self._options.max_memory
        if age is not None and child.age > age:
            return f"it is {child.age:.0f} s old"
        held = child.status.get("memory", 0)
        if memory is not None and held > memory:
            return f"it holds {held / 1e6:.0f} MB of memory"
        return ""
