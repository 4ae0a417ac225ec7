"""Waiting with the store: once for all types that have nothing to do."""

from __future__ import annotations

import asyncio
import math
import secrets
from typing import TYPE_CHECKING, Any

from kue.store.values import Claim, Claimed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.aio.retry import StoreRetry
    from kue.store.contract import Store
    from kue.worker.lane import Lane

#: The store wakes us for any work there is; this is only how long one call may last.
WAIT_SECONDS = 5.0


class IdleWait:
    """
    Waits for work on behalf of loops that ran out of it, and takes it for them.

    A call to the store cannot be joined once it was made, so loops that run out later
    wait in a call of their own.  All of these calls end at the same multiples of
    WAIT_SECONDS, and become one.

    While it waits it holds slots of the loops it waits for.  Where types share slots,
    others may want them: there it only wakes the loops (*claims* is False).
    """

    def __init__(
        self,
        store: Store,
        loops: Sequence[Lane],
        outage: StoreRetry,
        rested: asyncio.Event,
        *,
        worker: str,
        lease: int,
        claims: bool,
    ) -> None:
        self._store = store
        self._outage = outage
        self._loops = {loop.type: loop for loop in loops}
        self._worker = worker
        self._lease = lease
        self._claims = claims
        #: Types that a call to the store waits for.
        self._asleep: set[str] = set()
        #: Set by loops that run out of work.
        self._rested = rested
        self._calls: set[asyncio.Task[None]] = set()
        #: Calls that broke off and ask what they got: nobody else would.
        self._recovering: set[asyncio.Task[Any] | None] = set()
        #: Names for claims, of calls that were answered.
        self._lanes: list[Claim] = []

    async def run(self) -> None:
        """Wait until cancelled; then return once no call can bring jobs any more."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._rested.wait()
                # Loops that woke together run out together: let them.
                await asyncio.sleep(0)
                self._rested.clear()
                if types := self._idle():
                    call = group.create_task(self._sleep(types), name="kue wait")
                    self._calls.add(call)
                    call.add_done_callback(self._calls.discard)

    def interrupt(self) -> None:
        """Take no more jobs for now; what a call may have got is still received."""
        for call in self._calls:
            if not call.cancelling() and call not in self._recovering:
                call.cancel()

    def call_off(self) -> None:
        """
        Take no more jobs for now.

        Said again, also those that a call may have got are left to the store.
        """
        for call in self._calls:
            call.cancel()

    def _idle(self) -> list[str]:
        return [
            name
            for name, loop in self._loops.items()
            if loop.is_empty
            and name not in self._asleep
            and (loop.spare or not self._claims)
        ]

    async def _sleep(self, types: list[str]) -> None:
        self._asleep.update(types)
        try:
            await (self._stand_by(types) if self._claims else self._wait(types))
        finally:
            self._asleep.difference_update(types)
            # Those that were not woken go on waiting.
            self._rested.set()

    async def _wait(self, types: list[str]) -> None:
        """Wait for work, and wake the loops that there may be some for."""
        who = f"wait {types[0]}"
        woken = await self._outage.persist(
            who, lambda: self._store.wait(types, self._seconds(types))
        )
        for name in types:
            loop = self._loops[name]
            if name in woken or loop.is_due:
                loop.wake()

    async def _stand_by(self, types: list[str]) -> None:
        """Wait for work, and take it for the loops."""
        loops = [self._loops[name] for name in types]
        room = min(loop.spare for loop in loops)
        for loop in loops:
            loop.expect(room)
        claimed, failure = await self._claim(types, room)
        is_full = len(claimed.jobs) >= room
        for loop in loops:
            jobs = [job for job in claimed.jobs if job.type == loop.type]
            loop.receive(jobs, claimed, expected=room)
            if isinstance(failure, asyncio.CancelledError) or (is_full and jobs):
                loop.wake()
        if isinstance(failure, Exception):
            # Only this call may have failed: the next must not follow without rest.
            await self._wait(types)

    async def _claim(
        self, types: list[str], limit: int
    ) -> tuple[Claimed, BaseException | None]:
        """Return what came, and why the call was given up if it was."""
        last = self._lanes.pop() if self._lanes else Claim(secrets.token_hex(4), 0)
        claim = Claim(last.lane, last.seq + 1)
        failure: BaseException | None = None
        try:
            claimed = await self._store.stand_by(
                types,
                limit,
                worker=self._worker,
                claim=claim,
                lease=self._lease,
                timeout=self._seconds(types),
            )
        except (Exception, asyncio.CancelledError) as exc:
            # It may have got jobs, which nobody would run and our own beat would keep
            # alive.
            failure = exc
            claimed = await self._recover(types, claim)
        self._lanes.append(claim)
        return claimed, failure

    async def _recover(self, types: list[str], claim: Claim) -> Claimed:
        """Return what a claim got whose answer did not come."""
        call = asyncio.current_task()
        self._recovering.add(call)
        try:
            return await self._outage.persist(
                f"wait {types[0]}",
                lambda: self._store.claim(
                    types, 0, worker=self._worker, claim=claim, lease=self._lease
                ),
            )
        finally:
            self._recovering.discard(call)

    def _seconds(self, types: list[str]) -> float:
        now = asyncio.get_running_loop().time()
        until = (math.floor(now / WAIT_SECONDS) + 1) * WAIT_SECONDS
        rest = until - now
        dues = [self._loops[name].due for name in types]
        return max(0.0, min([rest, *(due - now for due in dues if due is not None)]))
