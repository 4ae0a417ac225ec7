"""
Shared data in Redis.

Maps and counters are spread by their names over 64 slices, each with its own hash tag
(``{kue:shared:<n>}``): what one script touches is in one slot of a Redis Cluster.
Locks share one tag (``{kue:locks}``), since a process renews all of them at once.
Names are percent-encoded.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar, TypeVarTuple, Unpack

from kue.aio.loop_thread import LoopThread
from kue.model.duration import milliseconds
from kue.model.names import check_name, quote
from kue.runtime.errors import RuntimeClosed
from kue.runtime.shared.contract import Counter
from kue.runtime.shared.redis.idempotent_calls import IdempotentCalls
from kue.runtime.shared.redis.lock_tickets import LockState, LockTicket
from kue.runtime.shared.redis.locks import RedisLocks
from kue.runtime.shared.redis.map import RedisMap
from kue.runtime.shared.shared_data import LOCK_TIMEOUT
from kue.runtime.shared.values import check_number, too_large
from kue.store.redis.wire.client import RedisClient
from kue.store.redis.wire.url import read_url

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kue.model.duration import Duration
    from kue.store.redis.wire.url import RedisAddress

#: Keys, their Redis types and what they hold, for docs/reference/redis-keys.md.
KEYS = (
    (
        "{kue:shared:<n>}:map:<name>",
        "hash",
        "keys and values, JSON; expires if all its entries do",
    ),
    (
        "{kue:shared:<n>}:ends:<name>",
        "zset",
        "keys of entries that expire; score = when, ms",
    ),
    ("{kue:shared:<n>}:counter:<name>", "string", "the number"),
    (
        "{kue:shared:<n>}:call:<caller>",
        "string",
        "number, tab, answer of the caller's last call; a minute",
    ),
    (
        "{kue:locks}:line:<lock>",
        "zset",
        "entries; score = ticket; the first holds the lock",
    ),
    ("{kue:locks}:ticket", "string", "the last ticket"),
    (
        "{kue:locks}:processes",
        "zset",
        "processes with entries; score = when the lease ends, ms",
    ),
    (
        "{kue:locks}:of:<process>",
        "hash",
        "its entries, and the number of its last request",
    ),
    ("{kue:locks}:server", "hash", "the identity of this Redis, and since when"),
    (
        "{kue:locks}:to:<process>",
        "channel",
        "the entry that is now the first (sharded publish)",
    ),
)
A = TypeVarTuple("A")
T = TypeVar("T")
#: As long as the lease of a node of a cluster.  Half of the default timeout of a lock,
#: so that a waiter outlives a holder that died.
LEASE_SECONDS = 5.0
#: Shorter ones could not be renewed in time; nobody would wait for longer ones.
_SHORTEST, _LONGEST = 0.5, 3600.0
_BUDGET_SECONDS = 5.0


class RedisCounter(Counter):
    """An integer shared by all processes."""

    def __init__(self, calls: IdempotentCalls, name: str) -> None:
        self._calls = calls
        self._root = calls.root(name)
        self._name = quote(name)

    async def get(self) -> int:
        key = f"{self._root}:counter:{self._name}"
        return int(await self._calls.command(self._root, "GET", key) or 0)

    async def add_and_get(self, number: int) -> int:
        check_number(number)
        total = await self._calls.change("counter_add", self._root, self._name, number)
        if total is None:
            raise too_large(f"{number} more than the current value")
        return int(total)

    async def get_and_add(self, number: int) -> int:
        return await self.add_and_get(number) - number

    async def compare_and_set(self, expected: int, number: int) -> bool:
        check_number(number)
        answer = await self._calls.change(
            "counter_set", self._root, self._name, f"{expected:d}", number
        )
        return answer is not None


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

    async def __aexit__(self, *exc: object) -> None:
        await self.release()


class ConnectionThread(LoopThread):
    """
    The thread of the Redis connections, from its creation until it is stopped.

    A Redis client belongs to one loop, and shared data is used from many.  And a
    handler that blocks its loop must not prevent the renewal of leases.
    """

    def __init__(self) -> None:
        super().__init__("kue-shared")

    async def call(
        self, function: Callable[[Unpack[A]], Coroutine[Any, Any, T]], *args: *A
    ) -> T:
        """
        Call an async *function* in the thread and return what it returns.

        Raises:
            RuntimeClosed: It is closed, or was closed during the call.
        """
        caller = asyncio.current_task()
        assert caller is not None
        cancellations = caller.cancelling()
        try:
            return await asyncio.wrap_future(self.start(function(*args)))
        except asyncio.CancelledError:
            if caller.cancelling() > cancellations:
                raise
            text = "this shared data was closed during the call"
            raise RuntimeClosed(text) from None

    def _closed(self) -> Exception:
        return RuntimeClosed("this shared data was closed")


class RedisShared:
    """
    Maps, locks and counters for all processes that use the same Redis.

    Pass it to a runtime, which opens and closes it, or write
    ``async with RedisShared(url) as shared``.

    Args:
        prefix: Separates maps, locks and counters that share a Redis.
        lease: A process that does not renew its lease for so many seconds is considered
            dead, and its locks are handed on.
    """

    def __init__(
        self, url: str, *, prefix: str = "kue", lease: float = LEASE_SECONDS
    ) -> None:
        if not _SHORTEST <= lease <= _LONGEST:
            raise ValueError(
                f"lease must be {_SHORTEST} to {_LONGEST:.0f} s, not {lease!r}"
            )
        self._prefix = check_name(prefix, what="prefix")
        self._address = read_url(url)
        self._lease = lease
        self._session: _Session | None = None
        self._is_closed = False

    async def open(self) -> Self:
        """
        Connect; once.

        Raises:
            StoreUnavailable: Redis does not answer.
            StoreRefused: It denies access.
        """
        if self._session is not None or self._is_closed:
            raise RuntimeClosed("shared data can be opened only once; create another")
        session = self._session = _Session(self._address, self._prefix, self._lease)
        try:
            await session.thread.call(session.client.read, session.root, "PING")
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Release all locks of this process and end; closing twice is fine."""
        session, self._session, self._is_closed = self._session, None, True
        if session is not None:
            try:
                await session.thread.call(session.end)
            finally:
                # That cancels the calls that run there.
                session.thread.stop()
                await asyncio.to_thread(session.thread.join)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def map(self, name: str) -> RedisMap:
        calls = self._opened().calls
        return RedisMap(calls, check_name(name, what="the name of a map"))

    async def counter(self, name: str) -> RedisCounter:
        check_name(name, what="the name of a counter")
        return RedisCounter(self._opened().calls, name)

    async def lock(self, name: str, *, timeout: Duration = LOCK_TIMEOUT) -> RedisLock:
        """
        Wait for the lock, first come first served.

        Raises:
            LockTimedOut: It was not free in time.
            StoreUnavailable: Redis does not answer.
        """
        entry = LockTicket(check_name(name, what="the name of a lock"))
        seconds = milliseconds(timeout, field="timeout") / 1000
        session = self._opened()
        try:
            await session.thread.call(session.locks.acquire, entry, seconds)
        except BaseException:
            # It may have been acquired just now; pass it on.
            session.thread.call_soon(session.locks.leave, entry)
            raise
        return RedisLock(session.thread, session.locks, entry)

    def _opened(self) -> _Session:
        if self._session is None:
            raise RuntimeClosed("this shared data is not open; use async with")
        return self._session


class _Session:
    """The connections, from opening to closing."""

    def __init__(self, address: RedisAddress, prefix: str, lease: float) -> None:
        process = secrets.token_hex(8)
        self.root = f"{{{quote(prefix)}:locks}}"
        self.client = RedisClient(address, budget_seconds=_BUDGET_SECONDS)
        self.thread = ConnectionThread()
        self.calls = IdempotentCalls(self.thread, self.client, prefix, process)
        self.locks = RedisLocks(self.client, self.root, process, lease)

    async def end(self) -> None:
        await self.locks.close()
        await self.client.close()
