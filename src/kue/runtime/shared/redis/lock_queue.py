"""Places in the lines of locks, as the process that has them knows them."""

from __future__ import annotations

import asyncio
import itertools
from enum import Enum, auto

_numbers = itertools.count(1)


class LockState(Enum):
    #: Redis has not told yet.
    COMING = auto()
    WAITING = auto()
    #: Redis lost the line, and those who held a lock are let back first.
    AWAY = auto()
    HELD = auto()
    #: Others were let in: this process was silent for too long.
    LOST = auto()
    #: Released, or given up.
    LEFT = auto()


class LockTicket:
    """A place in the line of *lock*; its futures belong to the loop of the locks."""

    def __init__(self, lock: str, number: int = 0) -> None:
        self.lock = lock
        self.number = number or next(_numbers)
        self.state = LockState.COMING
        #: Where in the line; the fencing number once the lock is held.
        self.ticket = 0
        #: The line is in what Redis remembers since then.
        self.born = b""
        #: With this ticket it was called, maybe before Redis told that it has it.
        self.called = 0

    def begin(self) -> None:
        """Be waited for; on the loop of the locks."""
        loop = asyncio.get_running_loop()
        #: Done when the place is in the line, and when it is the first.
        self.joined: asyncio.Future[None] = loop.create_future()
        self.turn: asyncio.Future[None] = loop.create_future()
        #: Done when Redis knows that it was left, or could not be told.
        self.gone: asyncio.Future[None] = loop.create_future()

    def hear(self, ticket: int, born: bytes) -> None:
        """Go along with what Redis says: a negative ticket has to wait."""
        self.born = born
        if self.state not in (LockState.COMING, LockState.WAITING, LockState.AWAY):
            return
        self.ticket = abs(ticket)
        if ticket > 0 or self.called == self.ticket:
            self.state = LockState.HELD
            _tell(self.turn)
        else:
            self.state = LockState.WAITING
        _tell(self.joined)

    def call(self, ticket: int) -> None:
        """Be the first in the line, if it is there with this ticket."""
        self.called = ticket
        if self.state is LockState.WAITING:
            self.hear(-self.ticket, self.born)

    def fail(self, error: Exception) -> None:
        """Tell who waits for the place that there will be none."""
        for future in (self.joined, self.turn):
            if not future.done():
                future.set_exception(error)
                # Nobody may be there to hear it.
                future.exception()


def _tell(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
