"""
Locks in Redis: first come, first served, over all processes.

The first entry in a lock's queue holds the lock.  A process has one lease for all its
entries, which it renews every third of it as long as it has any.  When it dies, the
others find its lease expired and remove its entries.  An entry that becomes the first
is notified by a message; each renewal checks whether one got lost.

Requests to Redis are steps, one at a time, each with many actions; those added in the
meantime make the next.  That keeps the order in which entries join a queue, and one
call for many is cheap.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from kue.aio.retry import short_pause
from kue.aio.tasks import cancel_all
from kue.model.errors import StoreError
from kue.model.names import quote, unquote
from kue.runtime.errors import LockTimedOut, RuntimeClosed
from kue.runtime.shared.redis.idempotent_calls import PACKAGE
from kue.runtime.shared.redis.lock_tickets import (
    LockAction,
    LockReply,
    LockState,
    LockTicket,
    resolve,
)
from kue.store.redis.scripts import load
from kue.store.redis.wire.client import pairs

if TYPE_CHECKING:
    from kue.store.redis.wire.client import RedisClient

logger = logging.getLogger(__name__)

#: Actions in one step.
_MANY = 500
#: How long closing takes at most if Redis does not answer.
_CLOSE_SECONDS = 2.0
#: How long to wait for a message before the connection is checked.
_LISTEN_SECONDS = 5.0


class RedisLocks:
    """All entries of this process; everything but `is_safe` on one event loop."""

    def __init__(
        self, client: RedisClient, root: str, process: str, lease: float
    ) -> None:
        self._client = client
        self._root = root
        self._process = process
        self._lease = lease
        #: Actions for the next steps.
        self._actions: deque[LockAction] = deque()
        self._step_numbers = itertools.count(1)
        #: When the lease of this process ends, by the monotonic clock.
        self._safe_until = 0.0
        #: Entries by number, until Redis is known to have removed them.
        self._entries: dict[int, LockTicket] = {}
        #: When the next renewal is due, by the monotonic clock.
        self._due = 0.0
        self._work = asyncio.Event()
        self._is_expired = False
        self._is_closed = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_safe(self) -> bool:
        """Whether the lease certainly stands; may be read from any thread."""
        return time.monotonic() < self._safe_until

    async def acquire(self, entry: LockTicket, seconds: float) -> None:
        """Join the queue and wait; a caller that stops waiting must `leave`."""
        if self._is_closed:
            raise RuntimeClosed("this shared data was closed")
        if entry.state is LockState.LEFT:
            # Cancelled before it began.
            return
        until = asyncio.get_running_loop().time() + seconds
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._run_steps(), name="kue-locks-step"),
                asyncio.create_task(self._listen(), name="kue-locks-listen"),
            ]
        entry.begin()
        self._entries[entry.number] = entry
        self._add("+", entry)
        await entry.joined
        if entry.state is LockState.HELD:
            return
        try:
            async with asyncio.timeout_at(until):
                await entry.acquired
        except TimeoutError:
            raise LockTimedOut(entry.lock) from None

    def leave(self, entry: LockTicket) -> None:
        """Release the lock, or stop waiting for it; once is enough."""
        was_left = entry.state is LockState.LEFT
        entry.state = LockState.LEFT
        if entry.number in self._entries and not was_left:
            self._add("-", entry)

    async def release(self, entry: LockTicket) -> None:
        """Leave, and wait until Redis confirms or is found not to answer."""
        self.leave(entry)
        if entry.number in self._entries:
            await asyncio.shield(entry.removed)

    async def close(self) -> None:
        """Leave all queues."""
        self._is_closed = True
        await cancel_all(self._tasks)
        for entry in self._entries.values():
            entry.fail(RuntimeClosed("this shared data was closed during the call"))
            entry.state = LockState.LEFT
            self._add("-", entry)
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                while self._actions:
                    await self._step(self._take())
        except (StoreError, TimeoutError) as exc:
            logger.warning("locks are released when their lease ends: %s", exc)
        for entry in self._entries.values():
            resolve(entry.removed)

    # -- steps -----------------------------------------------------------------

    def _add(self, what: str, entry: LockTicket) -> None:
        self._actions.append(LockAction(what, entry))
        self._work.set()

    def _take(self) -> list[LockAction]:
        return [self._actions.popleft() for _ in range(min(_MANY, len(self._actions)))]

    async def _run_steps(self) -> None:
        while True:
            await self._wait_for_work()
            actions = self._take()
            try:
                reply = await self._step(actions)
            except Exception as exc:
                if not isinstance(exc, StoreError):
                    # Leases must be renewed in any case.
                    logger.exception("a step of locks failed")
                self._fail(actions, exc)
                await asyncio.sleep(short_pause())
            else:
                self._apply(reply)
                if reply.entries > len(self._entries):
                    await self._clean_up()

    async def _step(self, actions: list[LockAction]) -> LockReply:
        """Make a step, which renews the lease.  One that fails may have been made."""
        args: list[str | int] = []
        for what, entry in actions:
            args += (what, entry.number, quote(entry.lock), entry.ticket)
        began = time.monotonic()
        born, soonest, entries, *tickets = await self._client.run(
            load("lock_queues", PACKAGE),
            self._root,
            self._process,
            round(self._lease * 1000),
            next(self._step_numbers),
            *args,
            heartbeat=True,
        )
        self._safe_until = began + self._lease
        replies = list(zip(actions, tickets, strict=True))
        return LockReply(replies, born, soonest / 1000, entries)

    async def _wait_for_work(self) -> None:
        """Return when there is an action, or a renewal is due."""
        while not self._actions:
            self._work.clear()
            left = self._due - time.monotonic()
            if self._entries and left <= 0:
                self._check_entries()
                return
            try:
                async with asyncio.timeout(left if self._entries else None):
                    await self._work.wait()
            except TimeoutError:
                continue

    def _check_entries(self) -> None:
        """Check whether a grant got lost, or an entry."""
        for entry in self._entries.values():
            if entry.state in (LockState.WAITING, LockState.HELD):
                self._add("?", entry)

    def _apply(self, reply: LockReply) -> None:
        # Just after the first lease ends if that is sooner: it may be a dead process.
        self._due = time.monotonic() + min(self._lease / 3, reply.soonest + 0.002)
        for (what, entry), ticket in reply.actions:
            if what == "-":
                self._entries.pop(entry.number, None)
                resolve(entry.removed)
            elif ticket == 0:
                self._handle_missing(entry, reply.born)
            else:
                # One that has to wait holds the lock anyway if it was granted since.
                entry.update(ticket, reply.born)
        if self._is_expired:
            self._is_expired = False
            logger.warning("the lease of locks is renewed again")

    def _handle_missing(self, entry: LockTicket, born: bytes) -> None:
        """Handle an entry that Redis lost with its data, or with our expired lease."""
        is_empty, entry.born = born != entry.born, born
        if entry.state is LockState.HELD and is_empty:
            self._add("!", entry)
        elif entry.state is LockState.HELD:
            self._mark_lost(entry)
        elif entry.state is LockState.WAITING:
            entry.state = LockState.REJOINING
            # By then, the holder of the lock has rejoined or knows that it is lost.
            wait = self._lease if is_empty else 0
            asyncio.get_running_loop().call_later(wait, self._rejoin, entry)

    def _rejoin(self, entry: LockTicket) -> None:
        if entry.state is LockState.REJOINING:
            self._add("+", entry)

    def _mark_lost(self, entry: LockTicket) -> None:
        entry.state = LockState.LOST
        self._add("-", entry)
        logger.error(
            "lock %r is lost: its lease could not be renewed, and others may hold it",
            entry.lock,
        )

    async def _clean_up(self) -> None:
        """Remove entries that only Redis has: a replica missed their removal."""
        with suppress(StoreError):
            key = f"{self._root}:of:{self._process}"
            found = await self._client.read(self._root, "HGETALL", key)
            for number, lock in pairs(found):
                # One of the fields is the number of the last step.
                if number.isdigit() and int(number) not in self._entries:
                    stray = LockTicket(unquote(lock.decode()), int(number))
                    stray.begin()
                    self._entries[stray.number] = stray
                    self.leave(stray)

    def _fail(self, actions: list[LockAction], error: Exception) -> None:
        for what, entry in actions:
            if what == "-":
                # It must be removed: nobody else does while our lease stands.
                self._add(what, entry)
                if not entry.removed.done():
                    logger.warning("lock %r is released later: %s", entry.lock, error)
                resolve(entry.removed)
            elif entry.state is LockState.JOINING:
                entry.fail(error)
            elif what == "+":
                self._rejoin(entry)
            elif what == "!" and entry.state is LockState.HELD:
                self._add(what, entry)
        is_any_held = any(it.state is LockState.HELD for it in self._entries.values())
        if is_any_held and not self.is_safe and not self._is_expired:
            self._is_expired = True
            logger.warning(
                "the lease of locks ended and cannot be renewed: others may hold them "
                "(%s)",
                error,
            )

    # -- grants ----------------------------------------------------------------

    async def _listen(self) -> None:
        """Receive grants, and resubscribe after every loss of the connection."""
        channel = f"{self._root}:to:{self._process}"
        while True:
            try:
                async with self._client.subscription(self._root, channel) as messages:
                    # An earlier grant is not sent again.  And a Redis that is back
                    # may have lost its data.
                    self._due = 0.0
                    self._work.set()
                    while True:
                        message = await messages(_LISTEN_SECONDS)
                        if message is not None:
                            self._grant(message)
            except StoreError as exc:
                # Renewals log it if it lasts.
                logger.debug("grants of locks are not received: %s", exc)
            await asyncio.sleep(short_pause())

    def _grant(self, message: bytes) -> None:
        number, _, ticket = message.partition(b"\t")
        if number.isdigit() and ticket.isdigit():
            entry = self._entries.get(int(number))
            if entry is not None:
                entry.grant(int(ticket))
