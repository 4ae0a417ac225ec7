"""Ids of all jobs of one type, in any state: read from the type's indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kue.store.redis.sharding import Shards

#: Sorted sets that hold jobs of a type; the running ones are in a hash.
_SETS = ("waiting", "held", "delayed", "complete", "failed", "cancelled", "blocked")
#: Ids that one script or command reads.
IDS_PER_CALL = 5_000
#: Up to this many jobs of a type, all ids are read and sorted at once …
FEW = 20_000
#: … and up to this many, if the page is not full after so many ids of the shard.
MANY, MAX_PASSED_FIRST = 200_000, 10_000
#: Ids read for one page of a larger type; then the page ends, with a cursor.
MAX_PASSED = 100_000


async def ids_of(db: Shards, job_type: str, most: int) -> set[int]:
    """Return all ids of a type that has at most *most* jobs."""
    active, *sets = _places_of(db, job_type)
    home = db.home_of(job_type)
    sizes = await db.read_many(home, [("ZCARD", key) for key in sets])
    parts = [
        ("ZRANGE", key, at, at + IDS_PER_CALL - 1)
        for key, size in zip(sets, sizes, strict=True)
        # Some may be added in the meantime.
        for at in range(0, min(size + IDS_PER_CALL, most), IDS_PER_CALL)
    ]
    replies = await db.read_many(home, [("HKEYS", active), *parts])
    return {int(job_id) for reply in replies for job_id in reply}


async def owned(db: Shards, job_type: str, ids: list[int]) -> list[int]:
    """Return those of *ids* that belong to a type."""
    active, *sets = _places_of(db, job_type)
    asked = [("HMGET", active, *ids), *(("ZMSCORE", key, *ids) for key in sets)]
    replies = await db.read_many(db.home_of(job_type), asked)
    return [
        job_id
        for job_id, *found in zip(ids, *replies, strict=True)
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
