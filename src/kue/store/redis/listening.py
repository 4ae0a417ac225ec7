"""Listening: the verb `watch`, over sharded publish and subscribe."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from kue.errors import StoreError, StoreUnavailable
from kue.events import Event, Kind
from kue.names import unquote
from kue.store.feed import Feed
from kue.store.redis.shards import Shards
from kue.store.values import WATCH_MS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kue.settings import Settings
    from kue.store.base import Events

#: Interest is renewed this often, well before it is forgotten.
_RENEW_SECONDS = WATCH_MS / 3000
_RECONNECT_SECONDS = 0.5


class _Ear:
    """Listens to one shard, on one connection, for every feed that wants it."""

    def __init__(self) -> None:
        #: Feed → the jobs of this shard that it is about; None for all.
        self.feeds: dict[Feed, Sequence[int] | None] = {}
        #: Set while the server has our subscription, or when *error* says why not.
        self.ready = asyncio.Event()
        self.error: StoreError | None = None
        self.task: asyncio.Task[None] | None = None

    def hear(self, message: bytes) -> None:
        for event in read_events(message):
            for feed in self.feeds:
                feed.put(event)

    def lag(self) -> None:
        for feed in self.feeds:
            feed.lag(0)


class Listening(Shards):
    """The verb `watch`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._listener = secrets.token_hex(8)
        self._ears: dict[int, _Ear] = {}

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
        feed = Feed(buffer, only=None if job_ids is None else frozenset(job_ids))
        shards = range(self._shards) if job_ids is None else self._by_shard(job_ids)
        wanted = {
            shard: None
            if job_ids is None
            else [job_id for job_id in job_ids if self._shard_of(job_id) == shard]
            for shard in shards
        }
        try:
            for shard, ids in wanted.items():
                self._ear(shard).feeds[feed] = ids
            for shard, ids in wanted.items():
                await self._heard(self._ears[shard])
                await self._declare(shard, ids)
            yield feed
        finally:
            for shard in wanted:
                await self._drop(shard, feed)

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

    async def _drop(self, shard: int, feed: Feed) -> None:
        """Take a feed off; with the last one the shard is listened to no more."""
        ear = self._ears[shard]
        wanted_all = ear.feeds.pop(feed, ()) is None
        if wanted_all and None not in ear.feeds.values():
            with contextlib.suppress(StoreError):
                await self._forget(shard)
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
            await self._declare_all(shard, ear)
            ear.ready.set()
            renew_at = loop.time() + _RENEW_SECONDS
            while True:
                message = await messages(max(0.0, renew_at - loop.time()))
                if message is not None:
                    ear.hear(message)
                if loop.time() >= renew_at:
                    await self._declare_all(shard, ear)
                    renew_at = loop.time() + _RENEW_SECONDS

    async def _declare_all(self, shard: int, ear: _Ear) -> None:
        for job_ids in list(ear.feeds.values()):
            await self._declare(shard, job_ids)

    async def _declare(self, shard: int, job_ids: Sequence[int] | None) -> None:
        """Have transitions tell what happens, for the next while."""
        listener = self._listener if job_ids is None else ""
        await self._run(shard, "listen", WATCH_MS, listener, *(job_ids or ()))

    async def _forget(self, shard: int) -> None:
        keys = self._keys[shard]
        await self._link.read(
            keys.root, "ZREM", keys.of_shard("listeners"), self._listener
        )


def read_events(message: bytes) -> list[Event]:
    """Read one message: a row for each event, fields between tabs."""
    return [_read_event(row) for row in message.split(b"\n")]


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
    return detail
