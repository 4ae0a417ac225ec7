"""What a runtime's users share: local maps, and what is kept here or elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.model.names import check_name
from kue.runtime.shared.local_map import LocalMap

if TYPE_CHECKING:
    from kue.model.duration import Duration
    from kue.runtime.shared.contract import AsyncMap, Counter, Lock, Shared
    from kue.runtime.shared.local_data import LocalShared

#: How long a lock is waited for, unless told otherwise.
LOCK_TIMEOUT = "10s"


class SharedData:
    """
    Maps, locks and counters by name.

    Those named local are this runtime's alone; the others are shared as far as the
    runtime reaches.

    Args:
        wide: Who keeps what reaches further; None if nothing does.
    """

    def __init__(self, local: LocalShared, wide: Shared | None = None) -> None:
        self._local = local
        self._wide: Shared = wide or local
        self._local_maps: dict[str, LocalMap] = {}

    async def open(self) -> None:
        """Do nothing: the runtime that it belongs to opens what reaches further."""

    async def close(self) -> None:
        """Do nothing, for others may use it still."""

    def local_map(self, name: str) -> LocalMap:
        """Return the map of that name, which needs no await."""
        check_name(name, what="the name of a map")
        return self._local_maps.setdefault(name, LocalMap())

    async def map(self, name: str) -> AsyncMap:
        return await self._wide.map(check_name(name, what="the name of a map"))

    async def local_async_map(self, name: str) -> AsyncMap:
        return await self._local.map(check_name(name, what="the name of a map"))

    async def lock(self, name: str, *, timeout: Duration = LOCK_TIMEOUT) -> Lock:
        """
        Wait for the lock of that name and return it; first come, first served.

        Write ``async with await shared.lock("door"):``, or release it yourself.

        Raises:
            LockTimedOut: It was not free in time.
        """
        check_name(name, what="the name of a lock")
        return await self._wide.lock(name, timeout=timeout)

    async def local_lock(self, name: str, *, timeout: Duration = LOCK_TIMEOUT) -> Lock:
        check_name(name, what="the name of a lock")
        return await self._local.lock(name, timeout=timeout)

    async def counter(self, name: str) -> Counter:
        return await self._wide.counter(check_name(name, what="the name of a counter"))

    async def local_counter(self, name: str) -> Counter:
        return await self._local.counter(check_name(name, what="the name of a counter"))
