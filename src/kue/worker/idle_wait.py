"""Idle wait: one blocking call to the store for all types that have no work."""

from __future__ import annotations

import asyncio
import math
import secrets
from typing import TYPE_CHECKING, Any

from kue.model.errors import StoreError
from kue.store.values import Claim, Claimed, ClaimRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.worker.lane import Lane
    from kue.worker.shared_context import SharedContext

#: The store wakes us for any new work; this is only how long one call may last.
WAIT_SECONDS = 5.0


class IdleWait:
    """
    Waits for work on behalf of lanes that ran out of it, and takes it for them.

    A call to the store cannot be joined once it was made, so lanes that run out later
    wait in a separate call.  All of these calls end at the same multiples of
    WAIT_SECONDS, and are then replaced by one.

    While it waits it reserves slots of the lanes it waits for.  Where types share
    slots, others may need them: there it only wakes the lanes (*claims* is False).
    """

    def __init__(
        self, context: SharedContext, became_idle: asyncio.Event, *, claims: bool
    ) -> None:
        self._context = context
        self._store = context.store
        self._store_retry = context.store_retry
        self._claims = claims
        #: Types that a call to the store waits for.
        self._waiting: set[str] = set()
        #: Set by lanes that run out of work.
        self._became_idle = became_idle
        self._calls: set[asyncio.Task[None]] = set()
        #: Calls that failed and now ask which jobs they got: nothing else would.
        self._recovering: set[asyncio.Task[Any] | None] = set()
        #: Calls in a row that failed because of a bug.
        self._bugs = 0
        #: The last claims of calls that are over; new claims continue their numbers.
        self._answered: list[Claim] = []

    async def run(self) -> None:
        """Wait until cancelled; then return once no call can bring jobs any more."""
        try:
            async with asyncio.TaskGroup() as group:
                while True:
                    await self._became_idle.wait()
                    # Lanes that woke together run out together: let them.
                    await asyncio.sleep(0)
                    self._became_idle.clear()
                    self._start_call(group)
        except ExceptionGroup as bugs:
            raise bugs.exceptions[0] from None

    def _start_call(self, group: asyncio.TaskGroup) -> None:
        if lanes := self._idle():
            call = group.create_task(self._call(lanes), name="kue idle wait")
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    def interrupt(self) -> None:
        """Claim no more for now; jobs that a call may have got are still received."""
        for call in self._calls:
            if not call.cancelling() and call not in self._recovering:
                call.cancel()
        # A call that is cancelled before its first step never runs, not even to its
        # end: lanes that are not paused must wait again all the same.
        self._became_idle.set()

    def cancel(self) -> None:
        """
        Claim no more for now.

        Called again, it also stops asking for jobs that a claim may have got; the store
        keeps them.
        """
        for call in self._calls:
            call.cancel()

    def _idle(self) -> list[Lane]:
        return [
            lane
            for lane in self._context.lanes
            if lane.is_empty
            and lane.type not in self._waiting
            and (lane.spare or not self._claims)
        ]

    async def _call(self, lanes: list[Lane]) -> None:
        types = [lane.type for lane in lanes]
        self._waiting.update(types)
        try:
            await (self._stand_by(lanes) if self._claims else self._wait(lanes))
        finally:
            self._waiting.difference_update(types)
            # Those that were not woken go on waiting.
            self._became_idle.set()

    async def _wait(self, lanes: list[Lane]) -> None:
        """Wait for work, and wake the lanes that may have some."""
        types = [lane.type for lane in lanes]
        woken = await self._store_retry.persist(
            f"wait {types[0]}", lambda: self._store.wait(types, _seconds(lanes))
        )
        for lane in lanes:
            if lane.type in woken or lane.is_due:
                lane.wake()

    async def _stand_by(self, lanes: list[Lane]) -> None:
        """Wait for work, and claim it for the lanes."""
        room = min(lane.spare for lane in lanes)
        for lane in lanes:
            lane.expect(room)
        claimed, failure = await self._claim(lanes, room)
        is_full = len(claimed.jobs) >= room
        for lane in lanes:
            jobs = [job for job in claimed.jobs if job.type == lane.type]
            lane.receive(jobs, claimed, expected=room)
            if isinstance(failure, asyncio.CancelledError) or (is_full and jobs):
                lane.wake()
        # Only this call may have failed: the next must not follow without a pause.
        if isinstance(failure, StoreError):
            await self._wait(lanes)
        elif isinstance(failure, Exception):
            self._bugs += 1
            await self._store_retry.pause(
                "stand_by", failure, bugs=self._bugs, failures=self._bugs
            )
        else:
            self._bugs = 0
            self._store_retry.recover("stand_by")

    async def _claim(
        self, lanes: list[Lane], limit: int
    ) -> tuple[Claimed, BaseException | None]:
        """Return what was claimed, and why the call failed if it did."""
        types = [lane.type for lane in lanes]
        last = (
            self._answered.pop() if self._answered else Claim(secrets.token_hex(4), 0)
        )
        claim = Claim(last.lane, last.seq + 1)
        failure: BaseException | None = None
        try:
            claimed = await self._store.stand_by(
                self._request(types, limit, claim), timeout=_seconds(lanes)
            )
        except (Exception, asyncio.CancelledError) as exc:
            # It may have got jobs, which nobody would run and whose lease our own
            # heartbeat would renew.
            failure = exc
            claimed = await self._recover(types, claim)
        self._answered.append(claim)
        return claimed, failure

    async def _recover(self, types: list[str], claim: Claim) -> Claimed:
        """Return the jobs of a claim whose reply was lost."""
        call = asyncio.current_task()
        self._recovering.add(call)
        try:
            return await self._store_retry.persist(
                f"wait {types[0]}",
                lambda: self._store.claim(self._request(types, 0, claim)),
            )
        finally:
            self._recovering.discard(call)

    def _request(self, types: list[str], limit: int, claim: Claim) -> ClaimRequest:
        return ClaimRequest(
            types,
            limit,
            worker=self._context.name,
            claim=claim,
            lease=self._context.settings.lease,
        )


def _seconds(lanes: Sequence[Lane]) -> float:
    """Return how long a call that waits for work of *lanes* may last."""
    now = asyncio.get_running_loop().time()
    until = (math.floor(now / WAIT_SECONDS) + 1) * WAIT_SECONDS
    rest = until - now
    dues = [lane.due for lane in lanes]
    return max(0.0, min([rest, *(due - now for due in dues if due is not None)]))
