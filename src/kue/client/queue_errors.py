"""
Errors of a queue: what ``q.on("error", …)`` receives.

These are the failed runs of its jobs, by any worker, and what goes wrong in this
process where nobody awaits it: the store is away or damaged while workers and
subscriptions use it, or a listener raises.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from kue.client.subscriptions import Callback, Callbacks, Subscriptions
from kue.model.events import Event, Kind

if TYPE_CHECKING:
    from kue.aio.tasks import BackgroundTasks

#: Events of jobs that are errors of their queue, as on the event bus.
FAILURES = (Kind.FAILED_ATTEMPT, Kind.FAILED, Kind.ERROR)


class QueueErrors:
    """The listeners for errors of a queue."""

    def __init__(
        self, subscriptions: Subscriptions, background: BackgroundTasks
    ) -> None:
        self._subscriptions = subscriptions
        self._background = background
        # What they raise is only logged: it must not call them again.
        self._callbacks = Callbacks()

    def on(self, callback: Callback) -> None:
        if not self._callbacks:
            for kind in FAILURES:
                self._subscriptions.on(kind, self._relay)
        self._callbacks.add(Kind.ERROR, callback)

    def off(self, callback: Callback | None) -> None:
        self._callbacks.remove(Kind.ERROR, callback)
        if not self._callbacks:
            for kind in FAILURES:
                self._subscriptions.off(kind, self._relay)

    def report(self, source: str, exc: Exception) -> None:
        """Notify the listeners of an error in this process; *source* is where."""
        if not self._callbacks:
            return
        detail = {"kind": type(exc).__name__, "message": str(exc), "source": source}
        # By our own clock: the store may be what fails.
        now = int(time.time() * 1000)
        event = Event(kind=Kind.ERROR, job_id=0, type="", at=now, detail=detail)
        self._background.start(self._callbacks.notify(event), "kue error listeners")

    async def _relay(self, event: Event) -> None:
        await self._callbacks.notify(msgspec.structs.replace(event, kind=Kind.ERROR))
