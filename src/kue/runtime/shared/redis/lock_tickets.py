"""Tickets: entries in the queues of locks, as far as this process knows them."""

from __future__ import annotations

import asyncio
import itertools
from enum import Enum, auto
from typing import NamedTuple

_numbers = itertools.count(1)


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
