"""
Listeners of jobs that were registered before their job was saved.

A job has no id until it is saved, and its first events may arrive before the reply to
the add does.  So all such listeners of a queue share one subscription to all jobs,
which is made before the add; it ends when the last of these jobs has ended.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kue.model.events import Event, Kind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kue.aio.retry import StoreRetry
    from kue.aio.tasks import BackgroundTasks
    from kue.client.handle import JobHandle
    from kue.client.subscriptions import Callbacks
    from kue.store.contract import Store

T = TypeVar("T")

#: The name of the subscription in logs of outages.
_CALLER = "listeners of jobs"


class JobListeners:
    """Calls the callbacks of jobs, from before they are saved until they have ended."""

    def __init__(
        self, store: Store, store_retry: StoreRetry, background: BackgroundTasks
    ) -> None:
        self._store = store
        self._store_retry = store_retry
        self._background = background
        #: A unique job may be saved, and listened to, several times.
        self._handles: dict[int, list[JobHandle[Any]]] = {}
        #: Adds in flight.
        self._saving: set[asyncio.Future[None]] = set()
        self._task: asyncio.Task[None] | None = None
        #: Whether it may be calling listeners, which are not to be interrupted.
        self._is_notifying = False
        self._tried = asyncio.Event()

    async def save(
        self, callbacks: Callbacks, add: Callable[[], Awaitable[JobHandle[T]]]
    ) -> JobHandle[T]:
        """Add a job whose events, from the first on, *callbacks* receive."""
        saved = asyncio.get_running_loop().create_future()
        self._saving.add(saved)
        try:
            await self._ready()
            handle = await add()
            handle._callbacks = callbacks
            self._handles.setdefault(handle.id, []).append(handle)
        finally:
            self._saving.discard(saved)
            saved.set_result(None)
            self._stop_if_done()
        if not handle.is_new:
            # It may have ended before we subscribed.
            await self._check([handle])
            self._stop_if_done()
        return handle

    async def _ready(self) -> None:
        if self._task is None or self._task.done():
            # Each subscription has its own: an earlier one may still be ending.
            self._tried = asyncio.Event()
            relay = partial(self._relay, self._tried)
            listening = self._store_retry.persist(_CALLER, relay)
            self._task = self._background.start(listening, "kue job listeners")
        await self._tried.wait()

    def _stop_if_done(self) -> None:
        if self._is_done and self._task is not None and not self._is_notifying:
            self._task.cancel()
            self._task = None

    @property
    def _is_done(self) -> bool:
        """Whether there is no job left to listen to."""
        return not self._handles and not self._saving

    async def _relay(self, tried: asyncio.Event) -> None:
        try:
            async with self._store.watch() as events:
                self._store_retry.recover(_CALLER)
                tried.set()
                # What ended while we were disconnected was not sent to us.
                await self._uninterrupted(self._check_all())
                while not self._is_done:
                    event = await anext(events, None)
                    if event is None:
                        return
                    await self._uninterrupted(self._notify(event))
                # Before anything is awaited: the next save subscribes again.
                self._task = None
        finally:
            # Saves must not wait for an outage to end.
            tried.set()

    async def _uninterrupted(self, calls: Awaitable[None]) -> None:
        self._is_notifying = True
        try:
            await calls
        finally:
            self._is_notifying = False

    async def _notify(self, event: Event) -> None:
        if event.kind is Kind.LAGGED:
            await self._check_all()
        if event.job_id not in self._handles and self._saving:
            # It may be of a job whose id is not known here yet.
            await asyncio.wait(set(self._saving))
        for handle in tuple(self._handles.get(event.job_id, ())):
            await self._deliver(handle, event)

    async def _check_all(self) -> None:
        await self._check([one for each in self._handles.values() for one in each])

    async def _check(self, handles: list[JobHandle[Any]]) -> None:
        for handle in handles:
            event = await handle._end_event()
            if event is not None:
                await self._deliver(handle, event)

    async def _deliver(self, handle: JobHandle[Any], event: Event) -> None:
        known = self._handles.get(event.job_id, [])
        # Another task may have delivered its end in the meantime.
        if handle not in known:
            return
        if event.kind.is_final:
            known.remove(handle)
            if not known:
                del self._handles[event.job_id]
        await handle._notify(event)
