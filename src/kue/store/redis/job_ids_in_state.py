"""
Ids of jobs in one state, in the order of pages: merged over types and shards.

Each type has a sorted set per state.  Scripts read a bounded number of entries, of some
types at a time; what they read of types that come later is kept for the next batch.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kue.model.job import State
from kue.model.names import quote
from kue.store.redis.job_ids_of_type import IDS_PER_CALL
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kue.store.redis.sharding import Shards

#: (sort key, id)
Key = tuple[int, int]

#: Pages with a larger offset are found by counting.
_FAR = 500
#: Greater than every id.
_NO_ID = 2**53
#: Entries of each type that are read at once after the first page.
_REFILL = 250


@dataclass
class _Source:
    """Some types of one shard: what was read of them, and where to go on."""

    shard: int
    types: list[str]
    after: Key | None
    limit: int
    keys: list[Key] = field(default_factory=list)
    is_read: bool = False
    has_more: bool = True

    def split(self) -> list[_Source]:
        """Return the same in smaller parts: only those that come next are read on."""
        size = max(1, len(self.types) // 10)
        return [
            _Source(self.shard, self.types[at : at + size], self.after, _REFILL)
            for at in range(0, len(self.types), size)
        ]

    def take(self, end: Key | None, descending: bool) -> list[Key]:
        """Remove and return the entries up to *end*, which is included."""
        if end is None:
            taken = self.keys
        elif descending:
            taken = [key for key in self.keys if key >= end]
        else:
            taken = [key for key in self.keys if key <= end]
        self.keys = self.keys[len(taken) :]
        return taken


class IdsInState:
    """Ids of a state that has sorted sets, merged over types and shards."""

    def __init__(
        self, db: Shards, state: State, types: list[str], descending: bool
    ) -> None:
        self._db = db
        self._state = state
        self._types = types
        self._descending = descending
        self._sources: list[_Source] = []
        #: What was merged, and not yet returned.
        self._merged: list[Key] = []
        #: The non-empty keys, by shard, once they are needed.
        self._filled: dict[int, list[str]] = {}

    async def batches(self, place: Key | None, skip: int) -> AsyncIterator[list[Key]]:
        after = None
        if place is not None:
            after = self._position(*place)
        elif skip > _FAR:
            after, skip = await self._seek(skip)
            if after is None:
                return
        want = min(skip + 100, MAX_BATCH)
        self._start(after, want)
        while True:
            found = await self._next(want)
            if part := found[skip:]:
                yield part
            if len(found) < want:
                return
            skip, want = max(0, skip - want), MAX_BATCH

    async def _seek(self, skip: int) -> tuple[Key | None, int]:
        """
        Return a position before entry number *skip*, and how many lie between.

        Counting the entries below a score is cheap, however many there are.  So the
        entry's score is found by bisection; only entries of the same score lie between.
        """
        await self._find_filled()
        if skip >= await self._count("-inf", "+inf"):
            return None, 0
        low, high = await self._ends()
        # It is the last score, in this order, with *skip* or fewer entries before it.
        while low < high:
            middle = (low + high + (not self._descending)) // 2
            is_reached = await self._passed(middle) <= skip
            if self._descending:
                low, high = (low, middle) if is_reached else (middle + 1, high)
            else:
                low, high = (middle, high) if is_reached else (low, middle - 1)
        position = (low, _NO_ID if self._descending else 0)
        return position, skip - await self._passed(low)

    async def _find_filled(self) -> None:
        state = self._state
        names = ("waiting", "held") if state is State.WAITING else (state.value,)
        for shard, homes in self._db.homes(self._types).items():
            of_type = self._db.keys[shard].of_type
            keys = [of_type(job_type, name) for job_type in homes for name in names]
            sizes = await self._db.read_many(shard, [("ZCARD", key) for key in keys])
            filled = [key for key, n in zip(keys, sizes, strict=True) if n]
            if filled:
                self._filled[shard] = filled

    async def _passed(self, score: int) -> int:
        """Count the entries that come before those of *score*."""
        if self._descending:
            return await self._count(f"({score}", "+inf")
        return await self._count("-inf", f"({score}")

    async def _count(self, low: str, high: str) -> int:
        """Return how many entries have a score from *low* to *high*."""
        total = 0
        for shard, names in self._filled.items():
            asked = [("ZCOUNT", name, low, high) for name in names]
            total += sum(await self._db.read_many(shard, asked))
        return total

    async def _ends(self) -> tuple[int, int]:
        """Return the lowest and the highest score; there must be an entry."""
        scores: list[int] = []
        for shard, names in self._filled.items():
            ends = [(name, end, end) for name in names for end in (0, -1)]
            asked = [("ZRANGE", *end, "WITHSCORES") for end in ends]
            for entry in await self._db.read_many(shard, asked):
                scores += [int(float(entry[1]))] if entry else []
        return min(scores, default=0), max(scores, default=0)

    def _start(self, after: Key | None, limit: int) -> None:
        """Begin to merge, with as many types per script as it may read."""
        at_once = max(1, IDS_PER_CALL // limit)
        self._sources = [
            _Source(shard, names[at : at + at_once], after, limit)
            for shard, names in self._db.homes(self._types).items()
            for at in range(0, len(names), at_once)
        ]

    async def _next(self, limit: int) -> list[Key]:
        """Return the next entries of all types, in order; fewer are the last."""
        while len(self._merged) < limit and self._sources:
            await self._merge_more()
        found, self._merged = self._merged[:limit], self._merged[limit:]
        return found

    async def _merge_more(self) -> None:
        """Read on where nothing is left, and merge as far as all types are known."""
        for source in self._sources[:]:
            # More than one page is wanted: from now on fewer types are read at a time.
            if not source.keys and source.is_read and len(source.types) > 1:
                self._sources.remove(source)
                self._sources += source.split()
        empty = [source for source in self._sources if not source.keys]
        await asyncio.gather(*map(self._read, empty))
        unfinished = [source.keys[-1] for source in self._sources if source.has_more]
        end = (max if self._descending else min)(unfinished, default=None)
        for source in self._sources:
            self._merged += source.take(end, self._descending)
        self._merged.sort(reverse=self._descending)
        self._sources = [one for one in self._sources if one.keys or one.has_more]

    async def _read(self, source: _Source) -> None:
        found = await self._range(
            source.shard, source.types, source.after, source.limit
        )
        source.keys, source.is_read = found, True
        source.has_more = len(found) == source.limit
        if found:
            source.after = self._position(*found[-1])

    async def _range(
        self, shard: int, types: list[str], after: Key | None, limit: int
    ) -> list[Key]:
        position = ("", "") if after is None else after
        order = "desc" if self._descending else "asc"
        args = (self._state.value, *position, limit, order, *map(quote, types))
        reply = await self._db.run(shard, "range", *args)
        return [
            (self._key(int(score)), int(job_id))
            for score, job_id in zip(reply[::3], reply[1::3], strict=True)
        ]

    def _position(self, key: int, job_id: int) -> tuple[int, int]:
        """Return a position of a page: a score in its sorted set, and an id."""
        return (job_id if self._state is State.BLOCKED else key), job_id

    def _key(self, score: int) -> int:
        """Return what pages are ordered by before the id: see `sort_key`."""
        return 0 if self._state is State.BLOCKED else score
