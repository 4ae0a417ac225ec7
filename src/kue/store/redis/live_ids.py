"""Ids of all existing jobs, in order: read from the live bitmaps, in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.redis.keys import LIVE_CHUNK, MAX_SEQUENCE
from kue.store.redis.verbs.stats import Counters
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

#: Live bitmaps read in one call: a quarter of a megabyte.
_CHUNKS = 32


class LiveIds(Counters):
    """Walks over the live bitmaps."""

    async def _live_ids(
        self,
        after: int | None,
        skip: int = 0,
        *,
        descending: bool,
        shards: Sequence[int] | None = None,
    ) -> AsyncIterator[list[int]]:
        """Yield the ids of all jobs on *shards*, in order, a few chunks at a time."""
        chosen = range(self._shards) if shards is None else shards
        last = await self._last_chunk()
        first = 0
        if after is not None:
            chunk = after // self._shards // LIVE_CHUNK
            first, last = (0, min(chunk, last)) if descending else (chunk, last)
        elif skip:
            first, last, skip = await self._seek_chunk(first, last, skip, descending)
        # Most callers need only the first page, so start small.
        size = 1
        while first <= last:
            stop = last + 1 if descending else min(first + size, last + 1)
            start = max(stop - size, first) if descending else first
            first, last = (first, start - 1) if descending else (stop, last)
            size = min(2 * size, _CHUNKS)
            ids: list[int] = []
            for shard in chosen:
                ids += await self._live_in(shard, start, stop)
            ids.sort(reverse=descending)
            if after is not None:
                ids = [i for i in ids if (i < after if descending else i > after)]
            passed = min(skip, len(ids))
            skip -= passed
            for at in range(passed, len(ids), MAX_BATCH):
                yield ids[at : at + MAX_BATCH]

    async def _seek_chunk(
        self, first: int, last: int, skip: int, descending: bool
    ) -> tuple[int, int, int]:
        """Skip whole chunks; return the chunks that are left, and the ids to skip."""
        while first < last:
            chunks = range(first, min(first + _CHUNKS, last + 1))
            if descending:
                chunks = range(max(last - _CHUNKS + 1, first), last + 1)[::-1]
            for chunk, count in zip(chunks, await self._counts(chunks), strict=True):
                if count > skip or first == last:
                    return first, last, skip
                skip -= count
                first, last = (first, chunk - 1) if descending else (chunk + 1, last)
        return first, last, skip

    async def _counts(self, chunks: Iterable[int]) -> list[int]:
        """Return the number of jobs in each of *chunks*, over all shards."""
        wanted = list(chunks)

        async def read(shard: int) -> list[int]:
            keys = self._keys[shard]
            return await self._read_many(
                shard, [("BITCOUNT", keys.live(chunk)) for chunk in wanted]
            )

        return [sum(counts) for counts in zip(*await self._on_all(read), strict=True)]

    async def _last_chunk(self) -> int:
        async def read(shard: int) -> int:
            key = self._keys[shard].of_shard("ids")
            [last] = await self._read_many(shard, [("GET", key)])
            number = int(last or 0)
            if number > MAX_SEQUENCE:
                # One bitmap would be read for every 65,536 ids up to it.
                raise ValueError(f"the last id in {key} is {last[:60]!r}")
            return number

        return max(await self._on_all(read)) // LIVE_CHUNK

    async def _live_in(self, shard: int, first: int, stop: int) -> list[int]:
        """Return the ids in the live bitmaps from *first* to before *stop*."""
        keys = self._keys[shard]
        bitmaps = await self._read_many(
            shard, [("GET", keys.live(chunk)) for chunk in range(first, stop)]
        )
        ids: list[int] = []
        for chunk, bitmap in enumerate(bitmaps, first):
            base = chunk * LIVE_CHUNK
            ids += (
                (base + offset) * self._shards + shard
                for offset in _bits((bitmap or b"")[: LIVE_CHUNK // 8])
            )
        return ids


def _bits(bitmap: bytes) -> list[int]:
    """Return the positions of the set bits."""
    return [
        8 * index + bit
        for index, byte in enumerate(bitmap)
        if byte
        for bit in range(8)
        if byte & (128 >> bit)
    ]
