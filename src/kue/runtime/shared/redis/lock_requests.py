"""What locks ask of Redis: steps, one at a time, each with many acts."""

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

#: Acts in one step.
_MANY = 500


class LockAction(NamedTuple):
    """What is to be done with a place: + come, - leave, ? look, ! be back."""

    what: str
    place: LockTicket


class LockReply(NamedTuple):
    """What a step told."""

    acts: list[tuple[LockAction, int]]
    #: Stays the same as long as Redis loses nothing.
    born: bytes
    #: Seconds until the first lease ends, whosoever it is.
    soonest: float
    #: How many places of this process Redis has.
    places: int


class LockRequests:
    """
    Carries acts to Redis in the order they came.

    Only one step is under way at a time; what is to be done meanwhile makes the next.
    That keeps the order of those who come to a line, and one call for many is cheap.
    """

    def __init__(
        self, link: RedisClient, root: str, process: str, lease: float
    ) -> None:
        self._link = link
        self._root = root
        self._process = process
        self._lease = lease
        self._waiting: deque[LockAction] = deque()
        self._numbers = itertools.count(1)
        #: Until then this process lives in the eyes of Redis, by the monotonic clock.
        self.safe_until = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, what: str, place: LockTicket) -> None:
        self._waiting.append(LockAction(what, place))

    def take(self) -> list[LockAction]:
        return [self._waiting.popleft() for _ in range(min(_MANY, len(self._waiting)))]

    async def make(self, acts: list[LockAction]) -> LockReply:
        """
        Make a step, which renews the lease.

        Raises:
            StoreError: It may have been made nevertheless.
        """
        words: list[str | int] = []
        for what, place in acts:
            words += (what, place.number, quote(place.lock), place.ticket)
        began = time.monotonic()
        born, soonest, places, *tickets = await self._link.run_loaded(
            load("step", PACKAGE),
            self._root,
            self._process,
            round(self._lease * 1000),
            next(self._numbers),
            *words,
            heartbeat=True,
        )
        self.safe_until = began + self._lease
        told = list(zip(acts, tickets, strict=True))
        return LockReply(told, born, soonest / 1000, places)

    async def places(self) -> dict[int, str]:
        """Return the places that Redis has, and the lock of each."""
        key = f"{self._root}:of:{self._process}"
        found = pairs(await self._link.read(self._root, "HGETALL", key))
        return {
            int(number): unquote(lock.decode())
            for number, lock in found
            if number.isdigit()
        }
