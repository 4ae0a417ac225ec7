"""
Shared data in Redis.

Maps and counters are spread by their names over 64 slices, each with a hash tag of its
own (``{kue:shared:<n>}``): what one script touches is in one slot of a Redis Cluster.
Locks share one tag (``{kue:locks}``), for a process renews all it has at once.  Names
are percent-encoded.

In a slice:

===================  ======  =======================================================
key, after the tag   type    holds
===================  ======  =======================================================
``:map:<name>``      hash    keys and values, JSON; expires if all its entries end
``:ends:<name>``     zset    keys of entries that end; score = when, ms
``:counter:<name>``  string  the number
``:call:<caller>``   string  number, tab, answer of the caller's last call; a minute
===================  ======  =======================================================

Of locks:

===================  ======  =======================================================
``:line:<lock>``     zset    places, ``<process>.<n>``; score = ticket; the first
                             holds the lock
``:ticket``          string  the last ticket
``:processes``       zset    processes with places; score = when the lease ends, ms
``:of:<process>``    hash    n → lock; ``step`` → number of its last step
``:server``          hash    ``run``: which Redis it is; ``born``: since when it is so
``:to:<process>``    –       channel: n, tab, ticket of a place that is now first
===================  ======  =======================================================
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from kue.model.duration import milliseconds
from kue.model.names import check_name, quote
from kue.runtime.errors import RuntimeClosed
from kue.runtime.shared.redis.connection_thread import ConnectionThread
from kue.runtime.shared.redis.counter import RedisCounter
from kue.runtime.shared.redis.idempotent_calls import IdempotentCalls
from kue.runtime.shared.redis.lock import RedisLock
from kue.runtime.shared.redis.lock_queue import LockTicket
from kue.runtime.shared.redis.locks import RedisLocks
from kue.runtime.shared.redis.map import RedisMap
from kue.runtime.shared.shared_data import LOCK_TIMEOUT
from kue.store.redis.wire.client import RedisClient
from kue.store.redis.wire.url import read_url

if TYPE_CHECKING:
    from types import TracebackType

    from kue.model.duration import Duration
    from kue.store.redis.wire.url import RedisAddress

#: As long as a node of a cluster may be silent.  Half of what a lock is waited for
#: unless told otherwise, so that whoever waits outlives a holder that died.
LEASE_SECONDS = 5.0
#: Shorter ones could not be renewed in time, longer ones nobody would wait for.
_SHORTEST, _LONGEST = 0.5, 3600.0
_BUDGET_SECONDS = 5.0


class RedisShared:
    """
    Keeps maps, locks and counters for all processes that name the same Redis.

    Hand it to a runtime, which opens and closes it, or write
    ``async with RedisShared(url) as shared``.

    Args:
        prefix: Those with another have other maps, locks and counters.
        lease: After so many seconds of silence a process is taken for dead, and the
            locks it held are handed on.
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
        self._open: _Open | None = None
        self._is_over = False

    async def open(self) -> Self:
        """
        Begin; once.

        Raises:
            StoreUnavailable: Redis does not answer.
            StoreRefused: It does not let us in.
        """
        if self._open is not None or self._is_over:
            raise RuntimeClosed("shared data is opened once; make another")
        self._open = _Open(self._address, self._prefix, self._lease)
        try:
            await self._open.home.call(self._open.begin)
        except BaseException:
            await self.close()
            raise
        return self

    async def close(self) -> None:
        """Release all locks of this process and end; closing twice is fine."""
        was_open, self._open, self._is_over = self._open, None, True
        if was_open is not None:
            try:
                await was_open.home.call(was_open.end)
            finally:
                await was_open.home.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def map(self, name: str) -> RedisMap:
        return RedisMap(self._there().calls, check_name(name, what="the name of a map"))

    async def counter(self, name: str) -> RedisCounter:
        check_name(name, what="the name of a counter")
        return RedisCounter(self._there().calls, name)

    async def lock(self, name: str, *, timeout: Duration = LOCK_TIMEOUT) -> RedisLock:
        """
        Wait for the lock, first come first served.

        Raises:
            LockTimedOut: It was not free in time.
            StoreUnavailable: Redis does not answer.
        """
        place = LockTicket(check_name(name, what="the name of a lock"))
        seconds = milliseconds(timeout, field="timeout") / 1000
        here = self._there()
        try:
            await here.home.call(here.locks.take, place, seconds)
        except BaseException:
            # It may come in the same moment; it is the next one's.
            with suppress(RuntimeClosed):
                here.home.post(here.locks.leave, place)
            raise
        return RedisLock(here.home, here.locks, place)

    def _there(self) -> _Open:
        if self._open is None:
            raise RuntimeClosed("this shared data is not open; use async with")
        return self._open


class _Open:
    """What there is from opening to closing."""

    def __init__(self, address: RedisAddress, prefix: str, lease: float) -> None:
        process = secrets.token_hex(8)
        self._root = f"{{{quote(prefix)}:locks}}"
        self._link = RedisClient(address, budget_seconds=_BUDGET_SECONDS)
        self.home = ConnectionThread()
        self.calls = IdempotentCalls(self.home, self._link, prefix, process)
        self.locks = RedisLocks(self._link, self._root, process, lease)

    async def begin(self) -> None:
        await self._link.read(self._root, "PING")

    async def end(self) -> None:
        await self.locks.close()
        await self._link.close()
