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

    from kue.store.base import Events

#: Interest is renewed this often, well before it is forgotten.
_RENEW_SECONDS = WATCH_MS / 3000
_RECONNECT_SECONDS = 0.5


class Listening(Shards):
    """The verb `watch`."""

    @asynccontextmanager
    async def watch(
        self, job_ids: Sequence[int] | None = None, *, buffer: int = 1000
    ) -> AsyncIterator[Events]:
        await self.open()
        feed = Feed(buffer, only=None if job_ids is None else frozenset(job_ids))
        listener = secrets.token_hex(8)
        shards = (
            range(self._shards)
            if job_ids is None
            else sorted({self._shard_of(job_id) for job_id in job_ids})
        )
        ready = [asyncio.Event() for _ in shards]
        ears = [
            asyncio.create_task(
                self._listen(shard, feed, listener, job_ids, heard),
                name=f"kue-listen-{shard}",
            )
            for shard, heard in zip(shards, ready, strict=True)
        ]
        try:
            await self._until_heard(ready, ears)
            yield feed
        finally:
            for ear in ears:
                ear.cancel()
            await asyncio.gather(*ears, return_exceptions=True)
            with contextlib.suppress(StoreError):
                await self._forget(listener)

    async def _until_heard(
        self, ready: list[asyncio.Event], ears: list[asyncio.Task[None]]
    ) -> None:
        """Wait until every shard is listened to; raise what stands in the way."""
        heard = asyncio.gather(*(event.wait() for event in ready))
        either: list[asyncio.Future[Any]] = [heard, *ears]
        try:
            await asyncio.wait(
                either,
                timeout=self._settings.budget / 1000,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for ear in ears:
                if ear.done():
                    ear.result()
            if not heard.done():
                raise StoreUnavailable(
                    f"{self.name} could not be listened to in time; is it running?"
                )
        finally:
            heard.cancel()

    async def _listen(
        self,
        shard: int,
        feed: Feed,
        listener: str,
        job_ids: Sequence[int] | None,
        ready: asyncio.Event,
    ) -> None:
        """Hand a shard's events to *feed*, through every loss of the connection."""
        while True:
            try:
                await self._subscribe(shard, feed, listener, job_ids, ready)
            except self._link.errors as exc:
                error = self._link.translate(exc)
            except StoreError as exc:
                error = exc
            if ready.is_set():
                feed.lag(0)
            elif not isinstance(error, StoreUnavailable):
                raise error
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _subscribe(
        self,
        shard: int,
        feed: Feed,
        listener: str,
        job_ids: Sequence[int] | None,
        ready: asyncio.Event,
    ) -> None:
        keys = self._keys[shard]
        loop = asyncio.get_running_loop()
        async with self._link.subscription(keys.root, keys.events) as messages:
            await self._declare(shard, listener, job_ids)
            ready.set()
            renew_at = loop.time() + _RENEW_SECONDS
            while True:
                message = await messages(max(0.0, renew_at - loop.time()))
                if message is not None:
                    for event in read_events(message):
                        feed.put(event)
                if loop.time() >= renew_at:
                    await self._declare(shard, listener, job_ids)
                    renew_at = loop.time() + _RENEW_SECONDS

    async def _declare(
        self, shard: int, listener: str, job_ids: Sequence[int] | None
    ) -> None:
        """Have transitions tell what happens, for the next while."""
        await self._run(
            shard,
            "listen",
            WATCH_MS,
            listener if job_ids is None else "",
            *(i for i in job_ids or () if self._shard_of(i) == shard),
        )

    async def _forget(self, listener: str) -> None:
        for keys in self._keys:
            await self._link.read(
                keys.root, "ZREM", keys.of_shard("listeners"), listener
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
