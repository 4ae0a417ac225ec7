"""Subscriptions to events: the verb `watch`, over sharded publish and subscribe."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kue.aio.tasks import cancel_all
from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import StoreError, StoreUnavailable
from kue.model.events import Event, Kind
from kue.model.names import unquote
from kue.store.corruption_errors import corrupt
from kue.store.event_buffer import EventBuffer
from kue.store.values import WATCH_MS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kue.store.contract import Events
    from kue.store.redis.sharding import Shards

logger = logging.getLogger(__name__)

#: Interests are renewed this often, well before they expire.
_RENEW_SECONDS = WATCH_MS / 3000
_RECONNECT_SECONDS = 0.5


class _Interest(NamedTuple):
    """The jobs whose events a subscriber wants."""

    #: The jobs of a shard; None for all.
    job_ids: Sequence[int] | None
    #: Name of a subscriber to all jobs.  Unique: one that leaves must not remove the
    #: entry of one that comes at the same time.
    listener: str = ""


class _Subscriber:
    """One of those that share a subscription; it gets what is published from now on."""

    def __init__(self, buffer: EventBuffer, interest: _Interest) -> None:
        self.buffer = buffer
        self.interest = interest
        #: The number of the last message before it subscribed; None until it is known.
        self._before: int | None = None
        #: What came until then.
        self._early: list[tuple[int, list[Event]]] = []

    def begin(self, published: int) -> None:
        """Deliver what comes after message *published*, and what of it has come."""
        if self._before is None:
            self._before = published
            for number, events in self._early:
                self.deliver(number, events)
            self._early.clear()

    def restart(self) -> None:
        """Deliver all that comes: a new connection may count from another number."""
        self._before = 0
        self._early.clear()

    def deliver(self, number: int, events: list[Event]) -> None:
        if self._before is None:
            self._early.append((number, events))
        elif number > self._before:
            for event in events:
                self.buffer.put(event)


class _ShardSubscription:
    """The subscription to one shard, on one connection, for all its subscribers."""

    def __init__(self) -> None:
        self.subscribers: dict[EventBuffer, _Subscriber] = {}
        #: Set while the server has our subscription, or when *error* is set instead.
        self.ready = asyncio.Event()
        self.error: StoreError | None = None
        self.task: asyncio.Task[None] | None = None

    def deliver(self, number: int, events: list[Event]) -> None:
        for subscriber in self.subscribers.values():
            subscriber.deliver(number, events)

    def restart(self) -> None:
        for subscriber in self.subscribers.values():
            subscriber.restart()

    def lag(self) -> None:
        for buffer in self.subscribers:
            buffer.lag(0)


class _MessageCounter:
    """Counts messages, to detect lost ones."""

    def __init__(self, published: int) -> None:
        #: How many had been published when we began, and when we last asked.
        self._before = self._published = published
        self._received = published

    def receive(self, number: int) -> bool:
        """
        Count the next message; return whether to deliver it.

        Raises:
            StoreUnavailable: The one before it was lost.
        """
        if number <= self._before == self._received:
            # It came after we subscribed and before we asked how many there were: it is
            # unknown whether all of those came.
            return False
        if number != self._received + 1:
            raise StoreUnavailable(f"event message {self._received + 1} was lost")
        self._received = number
        return True

    def compare(self, published: int) -> None:
        """Check that all messages published by the last call have been received."""
        if not self._received >= self._published <= published:
            raise StoreUnavailable(f"event message {self._published} was lost")
        self._published = published


class RedisSubscriptions:
    """The verb `watch`: one subscription per shard, for all subscribers."""

    def __init__(self, db: Shards) -> None:
        self._db = db
        self._subscriptions: dict[int, _ShardSubscription] = {}
        self._log = ThrottledLog(logger)

    async def close(self) -> None:
        await cancel_all(one.task for one in self._subscriptions.values())

    @asynccontextmanager
    async def watch(
        self, job_ids: Sequence[int] | None = None, *, buffer: int = 1000
    ) -> AsyncIterator[Events]:
        await self._db.open()
        events = EventBuffer(
            buffer, only=None if job_ids is None else frozenset(job_ids)
        )
        interests = self._interests(job_ids)
        try:
            subscribers: dict[int, _Subscriber] = {}
            for shard, interest in interests.items():
                subscribers[shard] = _Subscriber(events, interest)
                self._subscription(shard).subscribers[events] = subscribers[shard]
            for shard, subscriber in subscribers.items():
                await self._wait_ready(self._subscriptions[shard])
                subscriber.begin(await self._declare(shard, subscriber.interest))
            yield events
        finally:
            for shard in interests:
                await self._drop(shard, events)

    def _interests(self, job_ids: Sequence[int] | None) -> dict[int, _Interest]:
        """Return the interest in each shard."""
        if job_ids is None:
            interest = _Interest(None, secrets.token_hex(8))
            return dict.fromkeys(range(self._db.count), interest)
        by_shard = self._db.by_shard(job_ids)
        return {
            shard: _Interest([job_ids[position] for position in positions])
            for shard, positions in by_shard.items()
        }

    def _subscription(self, shard: int) -> _ShardSubscription:
        subscription = self._subscriptions.get(shard)
        if subscription is None or subscription.error is not None:
            subscription = self._subscriptions[shard] = _ShardSubscription()
            subscription.task = asyncio.create_task(
                self._listen(shard, subscription), name=f"kue-listen-{shard}"
            )
        return subscription

    async def _wait_ready(self, subscription: _ShardSubscription) -> None:
        """Wait until the server has the subscription; raise why it has not."""
        try:
            async with asyncio.timeout(self._db.settings.budget / 1000):
                await subscription.ready.wait()
        except TimeoutError:
            raise StoreUnavailable(
                f"{self._db.name} did not confirm a subscription in time; "
                "is it running?"
            ) from None
        if subscription.error is not None:
            raise subscription.error

    async def _drop(self, shard: int, events: EventBuffer) -> None:
        """Remove a subscriber; with the last one, end the subscription."""
        subscription = self._subscriptions[shard]
        subscriber = subscription.subscribers.pop(events, None)
        if subscriber is not None and subscriber.interest.listener:
            keys, listener = self._db.keys[shard], subscriber.interest.listener
            with contextlib.suppress(StoreError):
                await self._db.client.read(
                    keys.root, "ZREM", keys.of_shard("listeners"), listener
                )
        is_current = self._subscriptions.get(shard) is subscription
        if not subscription.subscribers and is_current:
            del self._subscriptions[shard]
            await cancel_all([subscription.task])

    async def _listen(self, shard: int, subscription: _ShardSubscription) -> None:
        """Deliver a shard's events, and subscribe again after a lost connection."""
        while True:
            try:
                await self._subscribe(shard, subscription)
            except StoreError as exc:
                error = exc
            except Exception as exc:
                # Nothing else would notice that this task ended.
                error = corrupt(self._db.name, exc)
                self._log.error("cannot receive events of %s", self._db.name, exc=exc)
            if subscription.ready.is_set():
                subscription.ready.clear()
                subscription.lag()
            elif not isinstance(error, StoreUnavailable):
                subscription.error = error
                subscription.ready.set()
                return
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _subscribe(self, shard: int, subscription: _ShardSubscription) -> None:
        keys = self._db.keys[shard]
        loop = asyncio.get_running_loop()
        channel = keys.of_shard("events")
        async with self._db.client.subscription(keys.root, channel) as messages:
            counter = _MessageCounter(await self._declare_all(shard, subscription))
            subscription.restart()
            subscription.ready.set()
            renew_at = loop.time() + _RENEW_SECONDS
            while True:
                message = await messages(max(0.0, renew_at - loop.time()))
                if message is not None:
                    number, events = read_message(message)
                    if counter.receive(number):
                        subscription.deliver(number, events)
                if loop.time() >= renew_at:
                    counter.compare(await self._declare_all(shard, subscription))
                    renew_at = loop.time() + _RENEW_SECONDS

    async def _declare_all(self, shard: int, subscription: _ShardSubscription) -> int:
        """Declare every interest; return how many messages were published before."""
        # The number is needed even if nobody is interested any more.
        subscribers = subscription.subscribers.values()
        interests = [one.interest for one in subscribers] or [_Interest(())]
        return min([await self._declare(shard, interest) for interest in interests])

    async def _declare(self, shard: int, interest: _Interest) -> int:
        """
        Have scripts publish the events of these jobs for the next `WATCH_MS`.

        Returns how many messages were published so far.
        """
        job_ids = interest.job_ids or ()
        published = await self._db.run(
            shard, "register_listener", WATCH_MS, interest.listener, *job_ids
        )
        return int(published)


def read_message(message: bytes) -> tuple[int, list[Event]]:
    """Read a message: its number, then one row per event, tab-separated."""
    number, *rows = message.split(b"\n")
    return int(number), [_read_event(row) for row in rows]


def _read_event(row: bytes) -> Event:
    kind, job_id, job_type, at, attempt, detail = row.split(b"\t")
    return Event(
        kind=Kind(kind.decode()),
        job_id=int(job_id),
        type=unquote(job_type.decode()),
        at=int(at),
        attempt=int(attempt or 0),
        detail=_public_detail(msgspec.json.decode(detail)) if detail else {},
    )


def _public_detail(detail: dict[str, Any]) -> dict[str, Any]:
    """Convert a line of the history to the documented detail of an event."""
    outcome = detail.pop("outcome", None)
    if outcome is None:
        return detail
    if outcome == "complete":
        return {"result": detail.get("result")}
    error = detail.pop("error", None) or {}
    if outcome in ("retry", "failed"):
        detail |= {"kind": error.get("kind", ""), "message": error.get("message", "")}
    elif outcome == "stalled":
        detail["reason"] = error.get("message", "")
    detail.pop("counts", None)
    detail.pop("asked", None)
    detail.pop("fingerprint", None)
    return detail
