"""Ids of all jobs of one type, in any state: read from the type's indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from kue.store.redis.sharding import Shards

#: Sorted sets that hold jobs of a type; the running ones are in a hash.
_SETS = ("waiting", "held", "delayed", "complete", "failed", "cancelled", "blocked")
#: Ids that one script or command reads.
IDS_PER_CALL = 5_000
#: Up to this many jobs of a type, all ids are read and sorted.
FEW = 20_000
#: Ids read for one page of a larger type; then the page ends, with a cursor.
MAX_PASSED = 100_000


async def ids_of(
    db: Shards, job_type: str, after: int | None, descending: bool
) -> AsyncIterator[list[int]]:
    """Yield the ids of a small type in any state: all are read, and sorted."""
    shard = db.home_of(job_type)
    active, *sets = _places_of(db, job_type)
    parts = [
        ("ZRANGE", key, at, at + IDS_PER_CALL - 1)
        for key in sets
        for at in range(0, FEW, IDS_PER_CALL)
    ]
    replies = await db.read_many(shard, [("HKEYS", active), *parts])
    ids = {int(job_id) for reply in replies for job_id in reply}
    for part in in_order(list(ids), after, descending):
        yield part


async def owned(
    db: Shards, job_type: str, batches: AsyncIterator[list[int]]
) -> AsyncIterator[list[int]]:
    """Yield those ids of *batches* that belong to a type."""
    active, *sets = _places_of(db, job_type)
    async for ids in batches:
        asked = [("HMGET", active, *ids), *(("ZMSCORE", key, *ids) for key in sets)]
        replies = await db.read_many(db.home_of(job_type), asked)
        places = zip(*replies, strict=True)
        yield [
            job_id
            for job_id, found in zip(ids, places, strict=True)
            if any(place is not None for place in found)
        ]


async def size_of(db: Shards, job_type: str) -> int:
    """Return the number of jobs of a type."""
    active, *sets = _places_of(db, job_type)
    asked = [("HLEN", active), *(("ZCARD", key) for key in sets)]
    return sum(await db.read_many(db.home_of(job_type), asked))


def _places_of(db: Shards, job_type: str) -> list[str]:
    """Return the keys that hold ids of a type: the running jobs first."""
    keys = db.keys[db.home_of(job_type)]
    return [keys.of_type(job_type, name) for name in ("active", *_SETS)]


class Walk:
    """Iterates over ids, and stops after *most* of them."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        #: The last id, if it stopped before the end.
        self.stopped_at: int | None = None

    async def along(
        self, batches: AsyncIterator[list[int]]
    ) -> AsyncIterator[list[int]]:
        passed = 0
        async for ids in batches:
            yield ids
            passed += len(ids)
            if self._most is not None and passed >= self._most:
                self.stopped_at = ids[-1]
                return


def in_order(
    ids: list[int], after: int | None, descending: bool
) -> Iterable[list[int]]:
    """Return ids in order and in batches, from where a page begins."""
    ids.sort(reverse=descending)
    if after is not None:
        ids = [i for i in ids if (i < after if descending else i > after)]
    return (ids[at : at + MAX_BATCH] for at in range(0, len(ids), MAX_BATCH))
