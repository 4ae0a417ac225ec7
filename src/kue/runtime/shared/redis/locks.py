"""
Locks that are kept in Redis: first come, first served, over all processes.

Whoever is first in a lock's line holds it.  A process has one lease for all its places,
which it renews every third of it as long as it has any.  When it dies, the others find
its lease at an end, and its places are removed.  Who becomes the first is called by a
message; each renewal looks whether one got lost.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from kue.model.errors import StoreError
from kue.runtime.errors import LockTimedOut, RuntimeClosed
from kue.runtime.shared.redis.lock_queue import LockState, LockTicket
from kue.runtime.shared.redis.lock_requests import LockRequests
from kue.store.redis.wire.client import short_pause

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.runtime.shared.redis.lock_requests import LockAction, LockReply
    from kue.store.redis.wire.client import RedisClient

logger = logging.getLogger(__name__)

#: How long closing takes at most where Redis does not answer.
_CLOSE_SECONDS = 2.0
#: How long a message is waited for before the connection is looked at.
_LISTEN_SECONDS = 5.0


class RedisLocks:
    """All places of this process; everything but `is_safe` on one event loop."""

    def __init__(
        self, link: RedisClient, root: str, process: str, lease: float
    ) -> None:
        self._link = link
        self._root = root
        self._channel = f"{root}:to:{process}"
        self._lease = lease
        self._steps = LockRequests(link, root, process, lease)
        #: Until Redis is known to have removed them.
        self._places: dict[int, LockTicket] = {}
        #: When the next renewal is due, by the monotonic clock.
        self._due = 0.0
        self._work = asyncio.Event()
        self._is_in_doubt = False
        self._is_closed = False
        self._stepping: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None

    @property
    def is_safe(self) -> bool:
        """Whether the lease stands for certain; asked from any thread."""
        return time.monotonic() < self._steps.safe_until

    async def take(self, place: LockTicket, seconds: float) -> None:
        """
        Come to the line and wait for the lock; whoever gives up must `leave`.

        Raises:
            LockTimedOut: It was not free in time.
            StoreError: Redis did not do what was asked of it.
        """
        if self._is_closed:
            raise RuntimeClosed("this shared data was closed")
        if place.state is LockState.LEFT:
            # Given up before it began.
            return
        until = asyncio.get_running_loop().time() + seconds
        if self._stepping is None:
            self._stepping = asyncio.create_task(self._step_on(), name="kue-locks-step")
            self._listening = asyncio.create_task(self._listen(), name="kue-locks-hear")
        place.begin()
        self._places[place.number] = place
        self._do("+", place)
        await place.joined
        if place.state is LockState.HELD:
            return
        try:
            async with asyncio.timeout_at(until):
                await place.turn
        except TimeoutError:
            raise LockTimedOut(place.lock) from None

    def leave(self, place: LockTicket) -> None:
        """Release the lock, or wait for it no longer; once is enough."""
        was_left = place.state is LockState.LEFT
        place.state = LockState.LEFT
        if place.number in self._places and not was_left:
            self._do("-", place)

    async def release(self, place: LockTicket) -> None:
        """Leave, and return once Redis knows or has been found not to answer."""
        self.leave(place)
        if place.number in self._places:
            await asyncio.shield(place.gone)

    async def close(self) -> None:
        """Leave all lines."""
        self._is_closed = True
        for task in (self._stepping, self._listening):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        for place in self._places.values():
            place.fail(RuntimeClosed("this shared data was closed meanwhile"))
            place.state = LockState.LEFT
            self._steps.add("-", place)
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                while len(self._steps):
                    await self._steps.make(self._steps.take())
        except (StoreError, TimeoutError) as exc:
            logger.warning("locks are free when their lease ends: %s", exc)
        for place in self._places.values():
            _end(place)

    # -- steps -----------------------------------------------------------------

    def _do(self, what: str, place: LockTicket) -> None:
        self._steps.add(what, place)
        self._work.set()

    async def _step_on(self) -> None:
        while True:
            await self._something_to_do()
            acts = self._steps.take()
            try:
                told = await self._steps.make(acts)
            except Exception as exc:
                if not isinstance(exc, StoreError):
                    # Whatever it was, leases must be renewed.
                    logger.exception("a step of locks failed")
                self._fail(acts, exc)
                await asyncio.sleep(short_pause())
            else:
                self._hear(told)
                if told.places > len(self._places):
                    await self._clean_up()

    async def _something_to_do(self) -> None:
        """Return when something is to be done, or a renewal is due."""
        while not len(self._steps):
            self._work.clear()
            left = self._due - time.monotonic()
            if self._places and left <= 0:
                self._look()
                return
            try:
                async with asyncio.timeout(left if self._places else None):
                    await self._work.wait()
            except TimeoutError:
                continue

    def _look(self) -> None:
        """Ask whether a call got lost, or a place."""
        for place in self._places.values():
            if place.state in (LockState.WAITING, LockState.HELD):
                self._do("?", place)

    def _hear(self, told: LockReply) -> None:
        # Just after the first lease ends if that is sooner: it may be a dead one's.
        self._due = time.monotonic() + min(self._lease / 3, told.soonest + 0.002)
        for (what, place), ticket in told.acts:
            if what == "-":
                self._places.pop(place.number, None)
                _end(place)
            elif ticket == 0:
                self._miss(place, told.born)
            else:
                # One that has to wait is held nevertheless if it was called since.
                place.hear(ticket, told.born)
        if self._is_in_doubt:
            self._is_in_doubt = False
            logger.warning("the lease of locks is renewed again")

    def _miss(self, place: LockTicket, born: bytes) -> None:
        """Redis does not know a place: it lost all it had, or took us for dead."""
        is_empty, place.born = born != place.born, born
        if place.state is LockState.HELD and is_empty:
            self._do("!", place)
        elif place.state is LockState.HELD:
            self._lose(place)
        elif place.state is LockState.WAITING:
            place.state = LockState.AWAY
            # By then, whoever held the lock is back or knows that it is lost.
            wait = self._lease if is_empty else 0
            asyncio.get_running_loop().call_later(wait, self._come_again, place)

    def _come_again(self, place: LockTicket) -> None:
        if place.state is LockState.AWAY:
            self._do("+", place)

    def _lose(self, place: LockTicket) -> None:
        place.state = LockState.LOST
        self._do("-", place)
        logger.error(
            "lock %r is lost: others were let in while its lease could not be renewed",
            place.lock,
        )

    async def _clean_up(self) -> None:
        """Leave places that Redis has and we do not: a replica had missed their end."""
        with suppress(StoreError):
            for number, lock in (await self._steps.places()).items():
                if number not in self._places:
                    stray = LockTicket(lock, number)
                    stray.begin()
                    self._places[number] = stray
                    self.leave(stray)

    def _fail(self, acts: Sequence[LockAction], error: Exception) -> None:
        for what, place in acts:
            if what == "-":
                # It must be left some day: as long as we live, nobody else removes it.
                self._do(what, place)
                if not place.gone.done():
                    logger.warning("lock %r is released later: %s", place.lock, error)
                _end(place)
            elif place.state is LockState.COMING:
                place.fail(error)
            elif what == "+":
                self._come_again(place)
            elif what == "!" and place.state is LockState.HELD:
                self._do(what, place)
        is_any_held = any(it.state is LockState.HELD for it in self._places.values())
        if is_any_held and not self.is_safe and not self._is_in_doubt:
            self._is_in_doubt = True
            logger.warning(
                "the lease of locks ended and cannot be renewed: others may hold them "
                "(%s)",
                error,
            )

    # -- calls -----------------------------------------------------------------

    async def _listen(self) -> None:
        """Hear who becomes the first, through every loss of the connection."""
        while True:
            try:
                async with self._link.subscription(self._root, self._channel) as hear:
                    # Whoever was called before is not called again.  And a Redis that
                    # is back may have lost all it had.
                    self._due = 0.0
                    self._work.set()
                    while True:
                        message = await hear(_LISTEN_SECONDS)
                        if message is not None:
                            self._call(message)
            except (*self._link.errors, StoreError) as exc:
                # Renewals say so if it lasts.
                logger.debug("calls of locks are not heard: %s", exc)
            await asyncio.sleep(short_pause())

    def _call(self, message: bytes) -> None:
        number, _, ticket = message.partition(b"\t")
        if number.isdigit() and ticket.isdigit():
            place = self._places.get(int(number))
            if place is not None:
                place.call(int(ticket))


def _end(place: LockTicket) -> None:
    if not place.gone.done():
        place.gone.set_result(None)
