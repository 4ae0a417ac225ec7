"""
Adding jobs: many callers, few round trips, each job once.

While one add is on its way, drafts of other callers collect; the next flight takes them
all.  A lone caller is never kept waiting for company, and a hundred at once cost one or
two calls.

The store tells a repeated add from a new one by (producer, seq).  A `ProducerSequence`
is such a producer: one call at a time, a growing seq.  A sequence whose last
call may or may not have arrived is thrown away, so that its number cannot be taken for
another call's.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from kue.store.batches import bytes_of_draft
from kue.store.values import MAX_BATCH, MAX_CALL_BYTES, Added

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from kue.model.job import Draft
    from kue.store.contract import Store


class ProducerSequence:
    """One producer in the eyes of the store."""

    def __init__(self) -> None:
        self._producer = uuid.uuid4().hex
        self._seq = 0

    async def add(
        self, store: Store, drafts: Sequence[Draft], *, durable: bool
    ) -> list[Added]:
        """Add *drafts* as the next call of this lane."""
        self._seq += 1
        return await store.add(
            drafts, producer=self._producer, seq=self._seq, durable=durable
        )


class _Waiting(NamedTuple):
    draft: Draft
    answer: asyncio.Future[Added]


class EnqueueBatcher:
    """Adds drafts to a store on behalf of everyone who holds the queue."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._idle_lanes: list[ProducerSequence] = []
        self._waiting: deque[_Waiting] = deque()
        self._pilot: asyncio.Task[None] | None = None
        #: Set while a caller's own call is on its way, without a pilot.
        self._alone: asyncio.Future[None] | None = None
        #: Whether others asked meanwhile, the last time.  Then it is worth waiting for
        #: them: a turn of the event loop, which a lone caller is spared.
        self._had_company = True

    def add(self, draft: Draft) -> Awaitable[Added]:
        """Add one draft, together with those of whoever else asks meanwhile."""
        if self._pilot is None and self._alone is None:
            return self._go_first(draft)
        answer: asyncio.Future[Added] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(draft, answer))
        return answer

    async def _go_first(self, draft: Draft) -> Added:
        if self._pilot is not None or self._alone is not None:
            # Somebody went between the call and the first step.
            return await self.add(draft)
        loop = asyncio.get_running_loop()
        self._alone = landed = loop.create_future()
        try:
            if self._had_company:
                # Whoever is ready to ask does so now.
                await asyncio.sleep(0)
            self._had_company = bool(self._waiting)
            if not self._had_company:
                # A lone caller needs no pilot, which is a third cheaper.
                [added] = await self.add_batch([draft])
                return added
            answer: asyncio.Future[Added] = loop.create_future()
            self._waiting.appendleft(_Waiting(draft, answer))
        finally:
            self._alone = None
            landed.set_result(None)
            if self._waiting:
                self._had_company = True
                self._pilot = asyncio.create_task(self._fly(), name="kue producer")
        return await answer

    async def add_batch(
        self, drafts: Sequence[Draft], *, durable: bool = False
    ) -> list[Added]:
        """Add up to MAX_BATCH drafts in a call of their own."""
        lane = self._idle_lanes.pop() if self._idle_lanes else ProducerSequence()
        added = await lane.add(self._store, drafts, durable=durable)
        # Reached only when the call was answered: see the top of this module.
        self._idle_lanes.append(lane)
        return added

    async def drain(self) -> None:
        """Return once everything handed in so far was answered."""
        while (flight := self._alone or self._pilot) is not None:
            await asyncio.wait([flight])

    async def _fly(self) -> None:
        try:
            while flight := self._board():
                await self._add_all(flight)
        finally:
            self._pilot = None

    def _board(self) -> list[_Waiting]:
        flight: list[_Waiting] = []
        size = 0
        while self._waiting and len(flight) < MAX_BATCH:
            size += bytes_of_draft(self._waiting[0].draft)
            if flight and size > MAX_CALL_BYTES:
                break
            passenger = self._waiting.popleft()
            # A caller that was cancelled before take-off stays on the ground.
            if not passenger.answer.done():
                flight.append(passenger)
        return flight

    async def _add_all(self, flight: list[_Waiting]) -> None:
        try:
            answers = await self.add_batch([passenger.draft for passenger in flight])
        except Exception as exc:
            for passenger in flight:
                if not passenger.answer.done():
                    passenger.answer.set_exception(exc)
            return
        for passenger, added in zip(flight, answers, strict=True):
            if not passenger.answer.done():
                passenger.answer.set_result(added)
