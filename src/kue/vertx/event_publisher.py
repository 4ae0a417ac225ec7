"""
Event publisher: publishes the events of a queue's jobs on the bus.

The store reports each event once it is committed; it is published here at the addresses
of its job and of the queue.  Delivery is at most once, as on any bus: what must not be
missed is read from the store.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from kue.aio.retry import StoreRetry
from kue.aio.tasks import BackgroundTasks
from kue.bus import BusClosed
from kue.client.subscriptions import QUEUE_PREFIX
from kue.model.events import Kind
from kue.vertx import event_payloads
from kue.vertx.addresses import ANY, Addresses

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.bus import EventBus
    from kue.client.queue import Kue
    from kue.model.events import Event
    from kue.model.job import Job

logger = logging.getLogger(__name__)

#: Events that may wait in the store's buffer; beyond it the oldest are dropped, and
#: that is published.
BUFFER = 10_000
#: Events published at a time: their jobs are read together.
BATCH = 200
#: Jobs whose address is remembered, for when they are removed.
MAX_KNOWN = 20_000
_ERROR = Kind.ERROR.value
#: Name of the subscription in log messages.
_LISTENING = "event publisher"


class EventPublisher:
    """Publishes the events of *q* on *bus*, from `start` to `stop`."""

    def __init__(self, q: Kue, bus: EventBus, addresses: Addresses | None = None):
        self._q = q
        self._bus = bus
        self._addresses = addresses or Addresses()
        self._retry = StoreRetry(q.store.name)
        self._background = BackgroundTasks()
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(BATCH)
        self._is_listening = asyncio.Event()
        #: The address ids of jobs seen, the oldest first.
        self._known: dict[int, str] = {}

    async def start(self) -> None:
        """Return once all events from now on will be published."""
        self._is_listening.clear()
        listening = self._retry.persist(_LISTENING, self._receive)
        self._background.start(listening, "kue event listener")
        self._background.start(self._publish(), "kue event publisher")
        await self._is_listening.wait()

    async def stop(self) -> None:
        """Stop publishing."""
        await self._background.close()

    # -- receiving -------------------------------------------------------------

    async def _receive(self) -> None:
        async with self._q.store.watch(buffer=BUFFER) as events:
            self._retry.recover(_LISTENING)
            self._is_listening.set()
            async for event in events:
                await self._waiting.put(event)

    # -- publishing ------------------------------------------------------------

    async def _publish(self) -> None:
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < BATCH and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            wanted = [event for event in batch if self._is_wanted(event)]
            jobs = await self._jobs(wanted)
            for event in wanted:
                try:
                    self._publish_event(event, jobs.get(event.job_id))
                except BusClosed:
                    return
                except Exception:
                    logger.exception("event %r could not be published", event)

    def _is_wanted(self, event: Event) -> bool:
        """Return whether it has consumers; a new job must be read anyway."""
        address_id = self._known.get(event.job_id)
        if address_id is None:
            return True
        if any(map(self._bus.is_heard, self._addresses_of(event, address_id))):
            return True
        if event.kind is Kind.REMOVE:
            del self._known[event.job_id]
        return False

    def _addresses_of(self, event: Event, address_id: str) -> Iterator[str]:
        """Iterate over the addresses of an event."""
        name = event.kind.value
        yield self._addresses.queue(QUEUE_PREFIX + name)
        yield self._addresses.job(name, address_id, event.type)
        yield self._addresses.job(ANY, address_id, event.type)
        if event.kind in event_payloads.FAILURES:
            yield self._addresses.queue(_ERROR)
            yield self._addresses.job(_ERROR, address_id, event.type)

    async def _jobs(self, events: list[Event]) -> dict[int, Job]:
        ids = list({event.job_id for event in events if event.job_id})
        if not ids:
            return {}
        found = await self._retry.persist(
            "reading jobs of events", lambda: self._q.store.get(ids)
        )
        return {job.id: job for job in found if job is not None}

    def _publish_event(self, event: Event, job: Job | None) -> None:
        if event.kind is Kind.LAGGED:
            missed = event.detail.get("missed") or "some"
            text = f"{missed} events were missed; read from the store what matters"
            self._bus.publish(self._addresses.queue(_ERROR), {"message": text})
            return
        address_id = self._address_id(event, job)
        if event.kind in event_payloads.FAILURES:
            error = event_payloads.error_payload(event)
            self._publish_to_job(_ERROR, address_id, event.type, error)
            self._bus.publish(self._addresses.queue(_ERROR), error)
        if event.kind is Kind.ERROR:
            return
        shown = event_payloads.shown_job(event, job, address_id)
        name = event.kind.value
        body = event_payloads.job_payload(event, shown)
        self._publish_to_job(name, address_id, event.type, body)
        at_queue = self._addresses.queue(QUEUE_PREFIX + name)
        extra = event_payloads.extra(event)
        self._bus.publish(at_queue, {"job": shown, "extra": extra})

    def _publish_to_job(
        self, name: str, address_id: str | None, type: str, body: Any
    ) -> None:
        if address_id is None:
            return
        self._bus.publish(self._addresses.job(name, address_id, type), body)
        enveloped = {"event": name, "body": body}
        self._bus.publish(self._addresses.job(ANY, address_id, type), enveloped)

    def _address_id(self, event: Event, job: Job | None) -> str | None:
        """Return the address of the job; None if it was removed before it was read."""
        known = self._known.pop(event.job_id, None)
        address_id = known if job is None else job.address_id
        if event.kind is not Kind.REMOVE and address_id is not None:
            self._known[event.job_id] = address_id
            if len(self._known) > MAX_KNOWN:
                del self._known[next(iter(self._known))]
        return address_id
