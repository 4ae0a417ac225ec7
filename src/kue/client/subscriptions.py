"""
Subscriptions to events, and the callbacks that are notified.

A callback may be a function or a coroutine function.  They are called one after the
other, in the order of the events; one that raises is logged and disturbs no other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from kue.aio.callbacks import awaited
from kue.aio.loop_calls import running
from kue.model.events import Event, Kind

if TYPE_CHECKING:
    from kue.aio.retry import OnError, StoreRetry
    from kue.aio.tasks import BackgroundTasks
    from kue.store.contract import Store

logger = logging.getLogger(__name__)

Callback: TypeAlias = Callable[[Event], object]

#: What queue-level names begin with.
QUEUE_PREFIX = "job_"
#: The name of a queue's subscription in logs of outages.
_CALLER = "listeners"


def kind_of(name: str, *, prefix: str = "") -> Kind:
    """
    Return the kind of event that *name* means; Kue's spaces ("job complete") are fine.

    Raises:
        ValueError: There is no such event; the message lists those there are.
    """
    # Chunks are only sent to subscribers of one job.
    left_out = {Kind.ALERT, Kind.CHUNK} if prefix else {Kind.ALERT}
    names = {prefix + kind: kind for kind in Kind if kind not in left_out}
    kind = names.get(name.replace(" ", "_"))
    if kind is None:
        raise ValueError(f"event {name!r} is unknown; there are {', '.join(names)}")
    return kind


class Callbacks:
    """Callbacks by kind of event."""

    def __init__(self, on_error: OnError | None = None) -> None:
        """*on_error* is called with what a callback raises, which is logged as well."""
        self._by_kind: dict[Kind, list[Callback]] = {}
        self.on_error = on_error
        #: Whether one is called at this moment: then its task is not to be cancelled.
        self.is_calling = False

    def __bool__(self) -> bool:
        return bool(self._by_kind)

    def add(self, kind: Kind, callback: Callback) -> None:
        self._by_kind.setdefault(kind, []).append(callback)

    def add_all(self, others: Callbacks) -> None:
        for kind, callbacks in others._by_kind.items():
            self._by_kind.setdefault(kind, []).extend(callbacks)

    def remove(self, kind: Kind, callback: Callback | None) -> None:
        """Forget one callback of *kind*, or with None all of them."""
        kept = [
            known
            for known in self._by_kind.pop(kind, [])
            if callback is not None and known != callback
        ]
        if kept:
            self._by_kind[kind] = kept

    async def notify(self, event: Event) -> None:
        """Call the callbacks for this kind of event."""
        self.is_calling = True
        try:
            for callback in tuple(self._by_kind.get(event.kind, ())):
                await self._call(callback, event)
        finally:
            self.is_calling = False

    async def _call(self, callback: Callback, event: Event) -> None:
        try:
            await awaited(callback(event))
        except Exception as exc:
            logger.exception("callback %r for %s raised", callback, event.kind.value)
            if self.on_error is not None:
                self.on_error(f"listener for {event.kind.value}", exc)


class Subscriptions:
    """
    The callbacks of a whole queue: one subscription for all of them.

    Callbacks may be registered before there is an event loop; the subscription is then
    made by the first method that needs it (`ready`).
    """

    def __init__(
        self, store: Store, store_retry: StoreRetry, background: BackgroundTasks
    ) -> None:
        self._store = store
        self._store_retry = store_retry
        self._background = background
        self.callbacks = Callbacks()
        self._task: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()

    def on(self, kind: Kind, callback: Callback) -> None:
        self.callbacks.add(kind, callback)
        self._start()

    def off(self, kind: Kind, callback: Callback | None) -> None:
        self.callbacks.remove(kind, callback)
        # No subscribers are left: transitions need not publish any more.
        is_idle = not self.callbacks.is_calling
        if not self.callbacks and self._task is not None and is_idle:
            self._task.cancel()
            self._task = None

    @property
    def is_wanted(self) -> bool:
        """Whether there are any callbacks."""
        return bool(self.callbacks)

    async def ready(self) -> None:
        """Return once callbacks receive every event from now on."""
        if self.is_wanted:
            self._start()
            await self._tried.wait()

    def _start(self) -> None:
        is_running = self._task is not None and not self._task.done()
        if is_running or running() is None:
            return
        # Each subscription has its own: an earlier one may still be ending.
        self._tried = asyncio.Event()
        self._task = self._background.start(self._listen(self._tried), "kue listeners")

    async def _listen(self, tried: asyncio.Event) -> None:
        await self._store_retry.persist(_CALLER, lambda: self._relay(tried))

    async def _relay(self, tried: asyncio.Event) -> None:
        try:
            async with self._store.watch() as events:
                self._store_retry.recover(_CALLER)
                tried.set()
                async for event in events:
                    await self.callbacks.notify(event)
                    if not self.callbacks:
                        # Before anything is awaited: the next `on` subscribes again.
                        self._task = None
                        return
        finally:
            # Callers of `ready` must not wait for an outage to end.
            tried.set()
