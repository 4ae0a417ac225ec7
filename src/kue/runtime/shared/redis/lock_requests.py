"""Requests of locks to Redis: steps, one at a time, each with many actions."""

from __future__ import annotations

import itertools
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kue.model.names import quote, unquote
from kue.runtime.shared.redis.idempotent_calls import PACKAGE
from kue.store.redis.scripts import load
from kue.store.redis.wire.client import pairs

if TYPE_CHECKING:
    from kue.runtime.shared.redis.lock_queue import LockTicket
    from kue.store.redis.wire.client import RedisClient

#: Actions in one step.
_MANY = 500


class LockAction(NamedTuple):
    """What to do with an entry: + join, - leave, ? check, ! rejoin as holder."""

    what: str
    entry: LockTicket


class LockReply(NamedTuple):
    """The reply to a step."""

    actions: list[tuple[LockAction, int]]
    #: Stays the same as long as Redis loses no data.
    born: bytes
    #: Seconds until the first lease of any process ends.
    soonest: float
    #: How many entries of this process Redis has.
    entries: int


class LockRequests:
    """
    Sends actions to Redis in the order they were added.

    Only one step is under way at a time; actions added in the meantime make the next.
    That keeps the order in which entries join a queue, and one call for many is cheap.
    """

    def __init__(
        self, client: RedisClient, root: str, process: str, lease: float
    ) -> None:
        self._client = client
        self._root = root
        self._process = process
        self._lease = lease
        self._waiting: deque[LockAction] = deque()
        self._numbers = itertools.count(1)
        #: When the lease of this process ends, by the monotonic clock.
        self.safe_until = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, what: str, entry: LockTicket) -> None:
        self._waiting.append(LockAction(what, entry))

    def take(self) -> list[LockAction]:
        return [self._waiting.popleft() for _ in range(min(_MANY, len(self._waiting)))]

    async def make(self, actions: list[LockAction]) -> LockReply:
        """
        Make a step, which renews the lease.

        Raises:
            StoreError: It may have been made anyway.
        """
        args: list[str | int] = []
        for what, entry in actions:
            args += (what, entry.number, quote(entry.lock), entry.ticket)
        began = time.monotonic()
        born, soonest, entries, *tickets = await self._client.run_loaded(
            load("step", PACKAGE),
            self._root,
            self._process,
            round(self._lease * 1000),
            next(self._numbers),
            *args,
            heartbeat=True,
        )
        self.safe_until = began + self._lease
        replies = list(zip(actions, tickets, strict=True))
        return LockReply(replies, born, soonest / 1000, entries)

    async def entries(self) -> dict[int, str]:
        """Return the entries that Redis has, and the lock of each."""
        key = f"{self._root}:of:{self._process}"
        found = pairs(await self._client.read(self._root, "HGETALL", key))
        return {
            int(number): unquote(lock.decode())
            for number, lock in found
            if number.isdigit()
        }
