"""All keys under one prefix: the memory that jobs take, and removing everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.redis.sharding import Shards
from kue.store.redis.verbs.check import pattern_of, servers_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from kue.model.settings import Settings

#: Keys scanned in one call; most may belong to other applications.
_SCANNED = 5_000
#: Keys removed in one round trip.
_REMOVED = 500


class Namespace:
    """The keys of a temporary prefix."""

    def __init__(self, settings: Settings) -> None:
        self._db = Shards(settings)

    async def weigh(self, job_type: str, job_ids: Sequence[int]) -> float:
        """
        Return the bytes that each of these jobs takes while it is waiting.

        Counts its record and its share of the waiting set.  The memory of the whole
        server would mean nothing: others may use it too.

        Raises:
            StoreError: The server does not report it, as some managed ones do not.
        """
        home = self._db.home_of(job_type)
        keys = self._db.keys[home]
        names = [keys.job(job_id) for job_id in job_ids]
        records = await self._db.read_many(
            home, [("MEMORY", "USAGE", name) for name in names]
        )
        waiting = keys.of_type(job_type, "waiting")
        whole, length = await self._db.read_many(
            home, [("MEMORY", "USAGE", waiting, "SAMPLES", 0), ("ZCARD", waiting)]
        )
        return sum(map(int, records)) / len(records) + int(whole) / int(length)

    async def erase(self) -> int:
        """Remove every key; return how many there were."""
        removed = 0
        for server in await servers_of(self._db):
            async for names in self._found(server):
                replies = await self._db.read_many(
                    server, [("UNLINK", *same) for same in _by_slot(names)]
                )
                removed += sum(replies)
        return removed

    async def close(self) -> None:
        """Close every connection."""
        await self._db.close()

    async def _found(self, server: int) -> AsyncIterator[list[bytes]]:
        cursor = -1
        options = ("MATCH", pattern_of(self._db), "COUNT", _SCANNED)
        while cursor:
            after, names = await self._db.read(server, "SCAN", max(cursor, 0), *options)
            cursor = int(after)
            for start in range(0, len(names), _REMOVED):
                yield names[start : start + _REMOVED]


def _by_slot(names: list[bytes]) -> list[list[bytes]]:
    """Group *names* by hash tag: in a Cluster, a command takes keys of one slot."""
    found: dict[bytes, list[bytes]] = {}
    for name in names:
        found.setdefault(name.partition(b"}:")[0], []).append(name)
    return list(found.values())
