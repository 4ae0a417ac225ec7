"""
Alert events: reports of alerts, for callbacks and iterators.

An alert is not a transition of a job, so no script publishes it.  Subscribers read the
last reports from the record of the alert monitor instead, every few seconds, and only
while there are any.  Each report has a number: none is delivered twice, and none is
missed as long as the record has it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kue.aio.loop_calls import running
from kue.client.subscriptions import Callback, Callbacks
from kue.model.events import Event, Kind
from kue.worker.alert_records import read_state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kue.aio.retry import StoreRetry
    from kue.aio.tasks import BackgroundTasks
    from kue.model.alerts import AlertNotice, AlertState
    from kue.store.contract import Store

#: Between two looks at the reports.
POLL_SECONDS = 2.0


class AlertEvents:
    """Subscriptions to the reports of alerts."""

    def __init__(
        self, store: Store, store_retry: StoreRetry, background: BackgroundTasks
    ) -> None:
        self._store = store
        self._store_retry = store_retry
        self._background = background
        self._callbacks = Callbacks()
        self._task: asyncio.Task[None] | None = None
        #: Set when it is known which reports are new.
        self._ready = asyncio.Event()

    def on(self, callback: Callback) -> None:
        self._callbacks.add(Kind.ALERT, callback)
        self.start()

    def off(self, callback: Callback | None) -> None:
        self._callbacks.remove(Kind.ALERT, callback)
        is_idle = not self._callbacks.is_calling
        if not self._callbacks and self._task is not None and is_idle:
            self._task.cancel()
            self._task = None

    def start(self) -> None:
        """Begin to notify callbacks, if there are any and an event loop runs."""
        is_running = self._task is not None and not self._task.done()
        if self._callbacks and not is_running and running() is not None:
            self._ready = asyncio.Event()
            self._task = self._background.start(
                self._notify(self._ready), "kue alert events"
            )

    async def ready(self) -> None:
        """Return once callbacks are notified of every report from now on."""
        if self._callbacks:
            self.start()
            await self._ready.wait()

    async def iterate(self, ready: asyncio.Event | None = None) -> AsyncIterator[Event]:
        """Yield each report from now on, which is when *ready* is set."""
        last = (await self._read()).number
        if ready is not None:
            ready.set()
        while True:
            state = await self._read()
            if state.number < last:
                # The record was deleted.
                last = 0
            for notice in state.notices:
                if notice.number > last:
                    last = notice.number
                    yield _event(notice)
            await asyncio.sleep(POLL_SECONDS)

    async def _read(self) -> AlertState:
        return await self._store_retry.persist(
            "alert events", lambda: read_state(self._store)
        )

    async def _notify(self, ready: asyncio.Event) -> None:
        async for event in self.iterate(ready):
            await self._callbacks.notify(event)
            if not self._callbacks:
                self._task = None
                return


def _event(notice: AlertNotice) -> Event:
    return Event(
        kind=Kind.ALERT,
        job_id=0,
        type=notice.type,
        at=notice.at,
        detail={
            "alert": notice.kind,
            "status": notice.status,
            "value": notice.value,
            "threshold": notice.threshold,
            "since": notice.since,
            "message": notice.message,
        },
    )
