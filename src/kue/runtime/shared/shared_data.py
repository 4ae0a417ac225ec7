"""Shared data of a runtime: local maps, and maps, locks and counters of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.names import check_name
from kue.runtime.shared.local_map import LocalMap

if TYPE_CHECKING:
    from kue.model.duration import Duration
    from kue.runtime.shared.contract import AsyncMap, Counter, Lock, Shared
    from kue.runtime.shared.local_data import LocalShared

#: How long to wait for a lock by default.
LOCK_TIMEOUT = "10s"


class SharedData:
    """
    Maps, locks and counters by name.

    Those named local belong to this runtime; the others are shared with the cluster, if
    there is one.

    Args:
        clustered: The shared data of the cluster; None without a cluster.
    """

    def __init__(self, local: LocalShared, clustered: Shared | None = None) -> None:
        self._local = local
        self._clustered: Shared = clustered or local
        self._local_maps: dict[str, LocalMap] = {}

    async def open(self) -> None:
        """Do nothing: the runtime opens the shared data of the cluster."""

    async def close(self) -> None:
        """Do nothing: others may still use it."""

    def local_map(self, name: str) -> LocalMap:
        """Return the map called *name*, which needs no await."""
        check_name(name, what="the name of a map")
        return self._local_maps.setdefault(name, LocalMap())

    async def map(self, name: str) -> AsyncMap:
        return await self._clustered.map(check_name(name, what="the name of a map"))

    async def local_async_map(self, name: str) -> AsyncMap:
        return await self._local.map(check_name(name, what="the name of a map"))

    async def lock(self, name: str, *, timeout: Duration = LOCK_TIMEOUT) -> Lock:
        """
        Wait for the lock called *name* and return it; first come, first served.

        Write ``async with await shared.lock("door"):``, or release it yourself.

        Raises:
            LockTimedOut: It was not free in time.
        """
        check_name(name, what="the name of a lock")
        return await self._clustered.lock(name, timeout=timeout)

    async def local_lock(self, name: str, *, timeout: Duration = LOCK_TIMEOUT) -> Lock:
        check_name(name, what="the name of a lock")
        return await self._local.lock(name, timeout=timeout)

    async def counter(self, name: str) -> Counter:
        check_name(name, what="the name of a counter")
        return await self._clustered.counter(name)

    async def local_counter(self, name: str) -> Counter:
        return await self._local.counter(check_name(name, what="the name of a counter"))
