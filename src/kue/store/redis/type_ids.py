"""Ids of one type, whatever their state: from the indexes that the type has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.redis.live_ids import LiveIds
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

#: Where jobs of a type are, beside the running ones.
_SETS = ("waiting", "held", "delayed", "complete", "failed", "cancelled", "blocked")
#: Ids that one script or command reads.
IDS_A_CALL = 5_000
#: The ids of a type with no more jobs than that are read all, and sorted.
FEW = 20_000
#: Ids passed over for one page of a larger type; then the page ends, with a cursor.
MAX_PASSED = 100_000


class TypeIds(LiveIds):
    """Reads the indexes of a type."""

    async def _ids_of(
        self, job_type: str, after: int | None, descending: bool
    ) -> AsyncIterator[list[int]]:
        """Yield ids of a type that has few, whatever their state: read and sorted."""
        shard = self._home_of(job_type)
        active, *sets = self._places_of(job_type)
        parts = [
            ("ZRANGE", key, at, at + IDS_A_CALL - 1)
            for key in sets
            for at in range(0, FEW, IDS_A_CALL)
        ]
        replies = await self._read_many(shard, [("HKEYS", active), *parts])
        ids = {int(job_id) for reply in replies for job_id in reply}
        for part in in_order(list(ids), after, descending):
            yield part

    async def _owned(
        self, job_type: str, batches: AsyncIterator[list[int]]
    ) -> AsyncIterator[list[int]]:
        """Yield those ids of *batches* that jobs of a type have."""
        active, *sets = self._places_of(job_type)
        async for ids in batches:
            asked = [("HMGET", active, *ids), *(("ZMSCORE", key, *ids) for key in sets)]
            replies = await self._read_many(self._home_of(job_type), asked)
            places = zip(*replies, strict=True)
            yield [
                job_id
                for job_id, found in zip(ids, places, strict=True)
                if any(place is not None for place in found)
            ]

    async def _size_of(self, job_type: str) -> int:
        """Return how many jobs of a type there are."""
        active, *sets = self._places_of(job_type)
        asked = [("HLEN", active), *(("ZCARD", key) for key in sets)]
        return sum(await self._read_many(self._home_of(job_type), asked))

    def _places_of(self, job_type: str) -> list[str]:
        """Return the keys that ids of a type are in: the running ones, then others."""
        keys = self._keys[self._home_of(job_type)]
        return [keys.of_type(job_type, name) for name in ("active", *_SETS)]


class Walk:
    """A walk over ids that ends after *most* of them."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        #: The last id, where the walk ended before it was done.
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
    """Return ids in order and in parts, from where a page begins."""
    ids.sort(reverse=descending)
    if after is not None:
        ids = [i for i in ids if (i < after if descending else i > after)]
    return (ids[at : at + MAX_BATCH] for at in range(0, len(ids), MAX_BATCH))
