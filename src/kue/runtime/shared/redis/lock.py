"""A lock that is held in Redis."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Self

from kue.runtime.errors import RuntimeClosed
from kue.runtime.shared.redis.lock_queue import LockState

if TYPE_CHECKING:
    from types import TracebackType

    from kue.runtime.shared.redis.connection_thread import ConnectionThread
    from kue.runtime.shared.redis.lock_queue import LockTicket
    from kue.runtime.shared.redis.locks import RedisLocks


class RedisLock:
    """A lock that this process holds, as far as it knows."""

    def __init__(
        self, home: ConnectionThread, locks: RedisLocks, place: LockTicket
    ) -> None:
        self._home = home
        self._locks = locks
        self._place = place

    @property
    def is_held(self) -> bool:
        return self._place.state is LockState.HELD and self._locks.is_safe

    @property
    def fence(self) -> int:
        return self._place.ticket

    async def release(self) -> None:
        # Closing has released it.
        with suppress(RuntimeClosed):
            await self._home.call(self._locks.release, self._place)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.release()
