"""What holds jobs back: pauses of types and of workers, and limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.model.names import quote, unquote
from kue.store.redis.keys import worker_field
from kue.store.redis.record import read_paused
from kue.store.redis.sharding import Sharding
from kue.store.redis.wire.client import pairs
from kue.store.validation import check_limits, check_pause
from kue.store.values import Limits, Pause

if TYPE_CHECKING:
    from collections.abc import Iterable

_encode = msgspec.json.Encoder().encode


class Holding(Sharding):
    """The verbs `pause`, `resume`, `paused`, `limit` and `limits`."""

    async def pause(
        self,
        type: str | None = None,
        *,
        worker: str | None = None,
        reason: str = "",
        by: str = "",
        until: int | None = None,
        now: int | None = None,
    ) -> None:
        shards, whose = self._place_of(type, worker)
        # The script writes the time first: what follows has no opening brace.
        said = _encode({"reason": reason, "by": by})[1:]
        end = "" if until is None else until
        for shard in shards:
            await self._run(shard, "pause", whose, end, said, now=now)

    async def resume(
        self,
        type: str | None = None,
        *,
        worker: str | None = None,
        now: int | None = None,
    ) -> bool:
        shards, whose = self._place_of(type, worker)
        replies = [await self._run(shard, "resume", whose, now=now) for shard in shards]
        return any(replies)

    def _place_of(
        self, type: str | None, worker: str | None
    ) -> tuple[Iterable[int], str]:
        """Return where a pause is kept, and under which name."""
        check_pause(type, worker)
        if worker is not None:
            # A beat hears from every shard; one is enough to be told by.
            return [self._home_of(worker)], worker_field(worker)
        if type is not None:
            return [self._home_of(type)], quote(type)
        return range(self._shards), ""

    async def paused(self) -> list[Pause]:
        return await self._pauses(await self.now())

    async def _pauses(self, moment: int) -> list[Pause]:
        found: dict[bytes, Pause] = {}
        for shard in range(self._shards):
            key = self._keys[shard].of_shard("paused")
            [fields] = await self._read_many(shard, [("HGETALL", key)])
            for whose, text in pairs(fields):
                pause = read_paused(whose, text)
                if pause.until is None or pause.until > moment:
                    found[whose] = pause
        return sorted(found.values(), key=_rank)

    async def limit(
        self, type: str, limits: Limits | None, *, now: int | None = None
    ) -> None:
        check_limits(limits)
        text = "" if limits is None else _write_limits(limits)
        await self._run(self._home_of(type), "limit", quote(type), text, now=now)

    async def limits(self) -> dict[str, Limits]:
        found: dict[str, Limits] = {}
        for shard in range(self._shards):
            key = self._keys[shard].of_shard("limits")
            [fields] = await self._read_many(shard, [("HGETALL", key)])
            for name, text in pairs(fields):
                found[unquote(name.decode())] = _read_limits(text)
        return dict(sorted(found.items()))


def _rank(pause: Pause) -> tuple[bool, str]:
    return pause.worker is not None, pause.worker or pause.type or ""


def _write_limits(limits: Limits) -> str:
    values = (limits.concurrency, limits.rate, limits.per, limits.per_key)
    return " ".join("-" if value is None else str(value) for value in values)


def _read_limits(text: bytes) -> Limits:
    values = [None if part == b"-" else int(part) for part in text.split(b" ")]
    concurrency, rate, per, per_key = values
    return Limits(concurrency, rate, per or 1000, per_key)
