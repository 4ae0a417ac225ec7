"""
Enqueue batcher: adds of many callers in few round trips, each job once.

While one add is in flight, drafts of other callers collect; the next batch takes them
all.  A single caller never waits for others, and a hundred at once cost one or two
calls.

Adds are idempotent: the store recognises a repeated one by (producer, seq).  A
`_Producer` makes one call at a time, with a growing seq.  One whose last call may or
may not have arrived is discarded, so that its number cannot be mistaken for another
call's.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kue.aio.coalesced_calls import CoalescedCalls
from kue.client.backpressure import add_when_room
from kue.model.errors import StoreUnavailable
from kue.store.batches import bytes_of_draft
from kue.store.values import MAX_BATCH, MAX_CALL_BYTES, REFUSED, Added

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.model.job import Draft
    from kue.store.contract import Store


class _Producer:
    """One producer, as the store sees it: an id and a growing number."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.seq = 0


class _Waiting(NamedTuple):
    draft: Draft
    answer: asyncio.Future[Added]


class EnqueueBatcher:
    """Adds drafts to a store for all users of the queue."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._idle_producers: list[_Producer] = []
        self._waiting: deque[_Waiting] = deque()
        self._sender = CoalescedCalls(self._send_batches, "kue producer")
        #: Set while a caller makes its call itself, without a sending task.
        self._first_call: asyncio.Future[None] | None = None
        #: Whether the last call had concurrent ones.  Then it is worth waiting for
        #: more: one turn of the event loop, which a single caller is spared.
        self._had_others = True

    async def add(self, draft: Draft) -> Added:
        """
        Add one draft, together with those of concurrent callers.

        Raises:
            QueueFull: The cap of its type refuses it.
        """
        added = await self._add(draft)
        if not added.is_refused:
            return added
        # Alone: others do not wait with it.
        [added] = await add_when_room(self._store, [draft], [added], self._add_batch)
        return added

    async def _add(self, draft: Draft) -> Added:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Added] = loop.create_future()
        if self._sender.tasks or self._first_call is not None:
            self._waiting.append(_Waiting(draft, answer))
            return await answer
        self._first_call = answered = loop.create_future()
        try:
            if self._had_others:
                # Callers that are ready add their drafts now.
                await asyncio.sleep(0)
            self._had_others = bool(self._waiting)
            if not self._had_others:
                # A single caller needs no task, which is a third cheaper.
                [added] = await self._add_batch([draft])
                return added
            self._waiting.appendleft(_Waiting(draft, answer))
        finally:
            self._first_call = None
            answered.set_result(None)
            if self._waiting:
                self._had_others = True
                self._sender.start()
        return await answer

    async def add_batch(
        self, drafts: Sequence[Draft], *, durable: bool = False
    ) -> list[Added]:
        """Add up to MAX_BATCH drafts in a separate call; may raise `QueueFull`."""
        added = await self._add_batch(drafts, durable=durable)
        if REFUSED not in added:
            return added
        add_again = partial(self._add_batch, durable=durable)
        try:
            return await add_when_room(self._store, drafts, added, add_again)
        except StoreUnavailable as exc:
            # Those that were not refused were added.
            exc.is_unknown = True
            raise

    async def _add_batch(
        self, drafts: Sequence[Draft], *, durable: bool = False
    ) -> list[Added]:
        producer = self._idle_producers.pop() if self._idle_producers else _Producer()
        producer.seq += 1
        added = await self._store.add(
            drafts, producer=producer.id, seq=producer.seq, durable=durable
        )
        # Only when the call was answered: see the top of this module.
        self._idle_producers.append(producer)
        return added

    async def drain(self) -> None:
        """Return once everything added so far was answered."""
        while self._first_call is not None or self._sender.tasks:
            if self._first_call is not None:
                await asyncio.wait([self._first_call])
            await self._sender.finish()

    async def _send_batches(self) -> None:
        while batch := self._next_batch():
            await self._add_all(batch)

    def _next_batch(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < MAX_BATCH:
            size += bytes_of_draft(self._waiting[0].draft)
            if batch and size > MAX_CALL_BYTES:
                break
            waiting = self._waiting.popleft()
            # Callers that were cancelled by now are left out.
            if not waiting.answer.done():
                batch.append(waiting)
        return batch

    async def _add_all(self, batch: list[_Waiting]) -> None:
        try:
            answers = await self._add_batch([waiting.draft for waiting in batch])
        except Exception as exc:
            for waiting in batch:
                if not waiting.answer.done():
                    waiting.answer.set_exception(exc)
            return
        for waiting, added in zip(batch, answers, strict=True):
            if not waiting.answer.done():
                waiting.answer.set_result(added)
