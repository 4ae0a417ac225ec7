"""A lock in Redis that this process holds."""

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
        self, thread: ConnectionThread, locks: RedisLocks, entry: LockTicket
    ) -> None:
        self._thread = thread
        self._locks = locks
        self._entry = entry

    @property
    def is_held(self) -> bool:
        return self._entry.state is LockState.HELD and self._locks.is_safe

    @property
    def fence(self) -> int:
        return self._entry.ticket

    async def release(self) -> None:
        # If it is closed, that has released the lock.
        with suppress(RuntimeClosed):
            await self._thread.call(self._locks.release, self._entry)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.release()
