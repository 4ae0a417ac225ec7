"""Ids of all existing jobs, in order: read from the live bitmaps, in batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.redis.keys import LIVE_CHUNK, MAX_SEQUENCE, offsets_in
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from kue.store.redis.sharding import Shards

#: Live bitmaps read in one call: a quarter of a megabyte.
_CHUNKS = 32


async def live_ids(
    db: Shards,
    after: int | None,
    skip: int = 0,
    *,
    descending: bool,
    shards: Sequence[int] | None = None,
) -> AsyncIterator[list[int]]:
    """Yield the ids of all jobs on *shards*, in order, a few chunks at a time."""
    chosen = range(db.count) if shards is None else shards
    last = await _last_chunk(db)
    first = 0
    if after is not None:
        chunk = after // db.count // LIVE_CHUNK
        first, last = (0, min(chunk, last)) if descending else (chunk, last)
    elif skip:
        first, last, skip = await _seek_chunk(db, first, last, skip, descending)
    # Most callers need only the first page, so start small.
    size = 1
    while first <= last:
        stop = last + 1 if descending else min(first + size, last + 1)
        start = max(stop - size, first) if descending else first
        first, last = (first, start - 1) if descending else (stop, last)
        size = min(2 * size, _CHUNKS)
        ids: list[int] = []
        for shard in chosen:
            ids += await _live_in(db, shard, start, stop)
        ids = in_order(ids, after, descending)
        passed = min(skip, len(ids))
        skip -= passed
        for at in range(passed, len(ids), MAX_BATCH):
            yield ids[at : at + MAX_BATCH]


def in_order(ids: Iterable[int], after: int | None, descending: bool) -> list[int]:
    """Return *ids* in order, from where a page begins."""
    if after is not None:
        ids = [i for i in ids if (i < after if descending else i > after)]
    return sorted(ids, reverse=descending)


async def _seek_chunk(
    db: Shards, first: int, last: int, skip: int, descending: bool
) -> tuple[int, int, int]:
    """Skip whole chunks; return the chunks that are left, and the ids to skip."""
    while first < last:
        chunks = range(first, min(first + _CHUNKS, last + 1))
        if descending:
            chunks = range(max(last - _CHUNKS + 1, first), last + 1)[::-1]
        for chunk, count in zip(chunks, await _counts(db, chunks), strict=True):
            if count > skip or first == last:
                return first, last, skip
            skip -= count
            first, last = (first, chunk - 1) if descending else (chunk + 1, last)
    return first, last, skip


async def _counts(db: Shards, chunks: range) -> list[int]:
    """Return the number of jobs in each of *chunks*, over all shards."""
    replies = await db.on_all(
        lambda shard: db.read_many(
            shard, [("BITCOUNT", db.keys[shard].live(chunk)) for chunk in chunks]
        )
    )
    return [sum(counts) for counts in zip(*replies, strict=True)]


async def _last_chunk(db: Shards) -> int:
    replies = await db.read_all("GET", "ids")
    for last, keys in zip(replies, db.keys, strict=True):
        if int(last or 0) > MAX_SEQUENCE:
            # One bitmap would be read for every 65,536 ids up to it.
            raise ValueError(f"the last id in {keys.of_shard('ids')} is {last[:60]!r}")
    return max(int(last or 0) for last in replies) // LIVE_CHUNK


async def _live_in(db: Shards, shard: int, first: int, stop: int) -> list[int]:
    """Return the ids in the live bitmaps from *first* to before *stop*."""
    keys = db.keys[shard]
    bitmaps = await db.read_many(
        shard, [("GET", keys.live(chunk)) for chunk in range(first, stop)]
    )
    ids: list[int] = []
    for chunk, bitmap in enumerate(bitmaps, first):
        base = chunk * LIVE_CHUNK
        ids += (
            (base + offset) * db.count + shard
            for offset in offsets_in((bitmap or b"")[: LIVE_CHUNK // 8])
        )
    return ids
