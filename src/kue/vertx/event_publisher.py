"""
Tells on the bus what happens to the jobs of a queue.

The store tells each event once it is a fact; here it is published, for whoever listens,
at the addresses of its job and of the queue.  Delivery is at most once, as on any bus:
what must not be missed is read from the store.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from kue.aio.retry import StoreRetry
from kue.bus import BusClosed
from kue.client.subscriptions import QUEUE_PREFIX, BackgroundTasks
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

#: Events that may wait in the store's buffer; past it the oldest go, which is told.
BUFFER = 10_000
#: Events told in one go: their jobs are read together.
BATCH = 200
#: Jobs whose address is remembered, for when they are gone.
MAX_KNOWN = 20_000
_ERROR = Kind.ERROR.value
#: How outages name the subscription.
_LISTENING = "event relay"


class EventPublisher:
    """Publishes the events of *q* on *bus*, from `start` to `stop`."""

    def __init__(self, q: Kue, bus: EventBus, addresses: Addresses | None = None):
        self._q = q
        self._bus = bus
        self._at = addresses or Addresses()
        self._outage = StoreRetry(q.store.name)
        self._background = BackgroundTasks()
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(BATCH)
        self._heard = asyncio.Event()
        #: The address ids of jobs seen, the oldest first.
        self._known: dict[int, str] = {}

    async def start(self) -> None:
        """Return once whatever happens from now on is told."""
        self._heard.clear()
        self._background.start(self._listen(), "kue relay listens")
        self._background.start(self._publish(), "kue relay tells")
        await self._heard.wait()

    async def stop(self) -> None:
        """Tell no more."""
        await self._background.close()

    # -- hearing ---------------------------------------------------------------

    async def _listen(self) -> None:
        await self._outage.persist(_LISTENING, self._hear)

    async def _hear(self) -> None:
        async with self._q.store.watch(buffer=BUFFER) as events:
            self._outage.recover(_LISTENING)
            self._heard.set()
            async for event in events:
                await self._waiting.put(event)

    # -- telling ---------------------------------------------------------------

    async def _publish(self) -> None:
        while True:
            batch = [await self._waiting.get()]
            while len(batch) < BATCH and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            wanted = [event for event in batch if self._is_wanted(event)]
            jobs = await self._jobs(wanted)
            for event in wanted:
                try:
                    self._tell(event, jobs.get(event.job_id))
                except BusClosed:
                    return
                except Exception:
                    logger.exception("event %r could not be told", event)

    def _is_wanted(self, event: Event) -> bool:
        """Tell whether someone listens; a job that is new must be seen anyway."""
        address_id = self._known.get(event.job_id)
        if address_id is None:
            return True
        if any(map(self._bus.is_heard, self._where(event, address_id))):
            return True
        if event.kind is Kind.REMOVE:
            del self._known[event.job_id]
        return False

    def _where(self, event: Event, address_id: str) -> Iterator[str]:
        """Give every address at which an event is told."""
        name = event.kind.value
        yield self._at.queue(QUEUE_PREFIX + name)
        yield self._at.job(name, address_id, event.type)
        yield self._at.job(ANY, address_id, event.type)
        if event.kind in event_payloads.TROUBLE:
            yield self._at.queue(_ERROR)
            yield self._at.job(_ERROR, address_id, event.type)

    async def _jobs(self, events: list[Event]) -> dict[int, Job]:
        ids = list({event.job_id for event in events if event.job_id})
        if not ids:
            return {}
        found = await self._outage.persist(
            "reading jobs of events", lambda: self._q.store.get(ids)
        )
        return {job.id: job for job in found if job is not None}

    def _tell(self, event: Event, job: Job | None) -> None:
        if event.kind is Kind.LAGGED:
            missed = event.detail.get("missed") or "some"
            text = f"{missed} events were missed; read from the store what matters"
            self._bus.publish(self._at.queue(_ERROR), {"message": text})
            return
        address_id = self._address_id(event, job)
        if event.kind in event_payloads.TROUBLE:
            self._tell_trouble(event, address_id)
        if event.kind is Kind.ERROR:
            return
        shown = event_payloads.shown(event, job, address_id)
        name = event.kind.value
        if address_id is not None:
            body = event_payloads.of_job(event, shown)
            self._tell_job(name, address_id, event.type, body)
        self._bus.publish(
            self._at.queue(QUEUE_PREFIX + name), event_payloads.of_queue(event, shown)
        )

    def _tell_trouble(self, event: Event, address_id: str | None) -> None:
        body = event_payloads.trouble(event)
        if address_id is not None:
            self._tell_job(_ERROR, address_id, event.type, body)
        self._bus.publish(self._at.queue(_ERROR), body)

    def _tell_job(self, name: str, address_id: str, type: str, body: Any) -> None:
        self._bus.publish(self._at.job(name, address_id, type), body)
        all_of_it = {"event": name, "body": body}
        self._bus.publish(self._at.job(ANY, address_id, type), all_of_it)

    def _address_id(self, event: Event, job: Job | None) -> str | None:
        """Return the address of the job; None if it was gone before it was seen."""
        known = self._known.pop(event.job_id, None)
        if job is None and known is None:
            return None
        address_id = known if job is None else job.address_id
        if event.kind is not Kind.REMOVE and address_id is not None:
            self._known[event.job_id] = address_id
            if len(self._known) > MAX_KNOWN:
                del self._known[next(iter(self._known))]
        return address_id
