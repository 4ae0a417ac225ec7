"""
Requests of locks to Redis: steps, one at a time, each with many actions.

A `LockTicket` is an entry in the queue of a lock, with its state as this process knows
it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple

from kue.model.names import quote, unquote
from kue.runtime.shared.redis.idempotent_calls import PACKAGE
from kue.store.redis.scripts import load
from kue.store.redis.wire.client import pairs

if TYPE_CHECKING:
    from kue.store.redis.wire.client import RedisClient

_numbers = itertools.count(1)
#: Actions in one step.
_MANY = 500


class LockState(Enum):
    #: Redis has not confirmed it yet.
    JOINING = auto()
    WAITING = auto()
    #: Redis lost the queue; holders of locks may rejoin before this entry does.
    REJOINING = auto()
    HELD = auto()
    #: Others may hold it: the lease of this process expired.
    LOST = auto()
    #: Released, or no longer wanted.
    LEFT = auto()


class LockTicket:
    """An entry in the queue of *lock*; its futures belong to the loop of the locks."""

    def __init__(self, lock: str, number: int = 0) -> None:
        self.lock = lock
        self.number = number or next(_numbers)
        self.state = LockState.JOINING
        #: Position in the queue; the fencing token once the lock is held.
        self.ticket = 0
        #: When Redis had its first step; differs after it lost its data.
        self.born = b""
        #: The ticket that was granted the lock, maybe before Redis confirmed the entry.
        self.granted = 0

    def begin(self) -> None:
        """Create the futures; on the loop of the locks."""
        loop = asyncio.get_running_loop()
        #: Done when the entry is in the queue, and when it is the first.
        self.joined: asyncio.Future[None] = loop.create_future()
        self.acquired: asyncio.Future[None] = loop.create_future()
        #: Done when Redis has removed it, or does not answer.
        self.removed: asyncio.Future[None] = loop.create_future()

    def update(self, ticket: int, born: bytes) -> None:
        """Apply a reply of Redis: an entry with a negative ticket has to wait."""
        self.born = born
        if self.state not in _UNDECIDED:
            return
        self.ticket = abs(ticket)
        if ticket > 0 or self.granted == self.ticket:
            self.state = LockState.HELD
            resolve(self.acquired)
        else:
            self.state = LockState.WAITING
        resolve(self.joined)

    def grant(self, ticket: int) -> None:
        """Hold the lock, if the entry is in the queue with this ticket."""
        self.granted = ticket
        if self.state is LockState.WAITING:
            self.update(-self.ticket, self.born)

    def fail(self, error: Exception) -> None:
        """Fail the futures: the entry will never get the lock."""
        for future in (self.joined, self.acquired):
            if not future.done():
                future.set_exception(error)
                # Nothing may wait for it.
                future.exception()


_UNDECIDED = (LockState.JOINING, LockState.WAITING, LockState.REJOINING)


def resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


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
        """Make a step, which renews the lease.  One that fails may have been made."""
        args: list[str | int] = []
        for what, entry in actions:
            args += (what, entry.number, quote(entry.lock), entry.ticket)
        began = time.monotonic()
        born, soonest, entries, *tickets = await self._client.run(
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
