"""Listening: the verb `watch`, over sharded publish and subscribe."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from kue.aio.throttled_log import ThrottledLog
from kue.model.errors import StoreError, StoreUnavailable
from kue.model.events import Event, Kind
from kue.model.names import unquote
from kue.store.damage import corrupt
from kue.store.event_buffer import EventBuffer
from kue.store.redis.sharding import Sharding
from kue.store.values import WATCH_MS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from kue.model.settings import Settings
    from kue.store.contract import Events

logger = logging.getLogger(__name__)

#: Interest is renewed this often, well before it is forgotten.
_RENEW_SECONDS = WATCH_MS / 3000
_RECONNECT_SECONDS = 0.5


class _Wish(NamedTuple):
    """What a feed is about."""

    #: The jobs of a shard; None for all.
    job_ids: Sequence[int] | None
    #: Who listens to all.  A name for each: one that goes must not be taken for one
    #: that comes at the same time.
    listener: str = ""


class _Ear:
    """Listens to one shard, on one connection, for every feed that wants it."""

    def __init__(self) -> None:
        self.feeds: dict[EventBuffer, _Wish] = {}
        #: Set while the server has our subscription, or when *error* says why not.
        self.ready = asyncio.Event()
        self.error: StoreError | None = None
        self.task: asyncio.Task[None] | None = None

    def hear(self, events: Iterable[Event]) -> None:
        for event in events:
            for feed in self.feeds:
                feed.put(event)

    def lag(self) -> None:
        for feed in self.feeds:
            feed.lag(0)


class _Count:
    """Counts messages, to find that some did not come."""

    def __init__(self, told: int) -> None:
        #: How many had been told when we began, and when we last asked.
        self._before = self._told = told
        self._heard = told

    def hear(self, number: int) -> bool:
        """
        Take the next message; return whether it counts.

        Raises:
            StoreUnavailable: One is missing before it.
        """
        if number <= self._before == self._heard:
            # It came between our subscription and the question how many there were:
            # nobody knows whether all of those did.
            return False
        if number != self._heard + 1:
            raise StoreUnavailable(f"message {self._heard + 1} of events did not come")
        self._heard = number
        return True

    def compare(self, told: int) -> None:
        """Take how many were told by now; those told last time must have come."""
        if not self._heard >= self._told <= told:
            raise StoreUnavailable(f"message {self._told} of events did not come")
        self._told = told


class Listening(Sharding):
    """The verb `watch`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._ears: dict[int, _Ear] = {}
        self._log = ThrottledLog(logger)

    async def close(self) -> None:
        tasks = [ear.task for ear in self._ears.values() if ear.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await super().close()

    @asynccontextmanager
    async def watch(
        self, job_ids: Sequence[int] | None = None, *, buffer: int = 1000
    ) -> AsyncIterator[Events]:
        await self.open()
        feed = EventBuffer(buffer, only=None if job_ids is None else frozenset(job_ids))
        wishes = self._wishes(job_ids)
        try:
            for shard, wish in wishes.items():
                self._ear(shard).feeds[feed] = wish
            for shard, wish in wishes.items():
                await self._heard(self._ears[shard])
                await self._declare(shard, wish)
            yield feed
        finally:
            for shard in wishes:
                await self._drop(shard, feed)

    def _wishes(self, job_ids: Sequence[int] | None) -> dict[int, _Wish]:
        """Return what to ask of which shard."""
        if job_ids is None:
            wish = _Wish(None, secrets.token_hex(8))
            return dict.fromkeys(range(self._shards), wish)
        places = self._by_shard(job_ids)
        return {
            shard: _Wish([job_ids[position] for position in positions])
            for shard, positions in places.items()
        }

    def _ear(self, shard: int) -> _Ear:
        ear = self._ears.get(shard)
        if ear is None or ear.error is not None:
            ear = self._ears[shard] = _Ear()
            ear.task = asyncio.create_task(
                self._listen(shard, ear), name=f"kue-listen-{shard}"
            )
        return ear

    async def _heard(self, ear: _Ear) -> None:
        """Wait until the shard is listened to; raise what stands in the way."""
        try:
            async with asyncio.timeout(self._settings.budget / 1000):
                await ear.ready.wait()
        except TimeoutError:
            raise StoreUnavailable(
                f"{self.name} could not be listened to in time; is it running?"
            ) from None
        if ear.error is not None:
            raise ear.error

    async def _drop(self, shard: int, feed: EventBuffer) -> None:
        """Take a feed off; with the last one the shard is listened to no more."""
        ear = self._ears[shard]
        wish = ear.feeds.pop(feed, None)
        if wish is not None and wish.listener:
            with contextlib.suppress(StoreError):
                await self._forget(shard, wish.listener)
        if not ear.feeds and self._ears.get(shard) is ear and ear.task is not None:
            del self._ears[shard]
            ear.task.cancel()
            await asyncio.gather(ear.task, return_exceptions=True)

    async def _listen(self, shard: int, ear: _Ear) -> None:
        """Hand a shard's events to the feeds, through every loss of the connection."""
        while True:
            try:
                await self._subscribe(shard, ear)
            except self._link.errors as exc:
                error = self._link.translate(exc)
            except StoreError as exc:
                error = exc
            except Exception as exc:
                # Nobody else would notice that this task ended.
                error = corrupt(self.name, exc)
                self._log.error("%s cannot be listened to", self.name, exc=exc)
            if ear.ready.is_set():
                ear.ready.clear()
                ear.lag()
            elif not isinstance(error, StoreUnavailable):
                ear.error = error
                ear.ready.set()
                return
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _subscribe(self, shard: int, ear: _Ear) -> None:
        keys = self._keys[shard]
        loop = asyncio.get_running_loop()
        async with self._link.subscription(keys.root, keys.events) as messages:
            count = _Count(await self._declare_all(shard, ear))
            ear.ready.set()
            renew_at = loop.time() + _RENEW_SECONDS
            while True:
                message = await messages(max(0.0, renew_at - loop.time()))
                if message is not None:
                    number, events = read_message(message)
                    if count.hear(number):
                        ear.hear(events)
                if loop.time() >= renew_at:
                    count.compare(await self._declare_all(shard, ear))
                    renew_at = loop.time() + _RENEW_SECONDS

    async def _declare_all(self, shard: int, ear: _Ear) -> int:
        """Declare every wish; return how many messages were told before."""
        # Who wishes for nothing is told how many there were all the same.
        wishes = list(ear.feeds.values()) or [_Wish(())]
        return min([await self._declare(shard, wish) for wish in wishes])

    async def _declare(self, shard: int, wish: _Wish) -> int:
        """
        Have transitions tell what happens, for the next while.

        Returns how many messages were told so far.
        """
        job_ids = wish.job_ids or ()
        told = await self._run(shard, "listen", WATCH_MS, wish.listener, *job_ids)
        return int(told)

    async def _forget(self, shard: int, listener: str) -> None:
        keys = self._keys[shard]
        await self._link.read(keys.root, "ZREM", keys.of_shard("listeners"), listener)


def read_message(message: bytes) -> tuple[int, list[Event]]:
    """Read one message: its number, and a row for each event, fields between tabs."""
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
        detail=_told(msgspec.json.decode(detail)) if detail else {},
    )


def _told(detail: dict[str, Any]) -> dict[str, Any]:
    """Turn a line of the story into what listeners are promised."""
    outcome = detail.pop("outcome", None)
    if outcome is None:
        return detail
    error = detail.pop("error", None) or {}
    if outcome in ("retry", "failed"):
        detail |= {"kind": error.get("kind", ""), "message": error.get("message", "")}
    elif outcome == "stalled":
        detail["reason"] = error.get("message", "")
    detail.pop("counts", None)
    detail.pop("fingerprint", None)
    return detail
