"""Adding very many jobs: chunk by chunk, in the order given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from kue.store.values import MAX_BATCH, Added

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.job import Draft
    from kue.producer import Producer

#: Called with how many jobs were added, after each chunk.
OnAdded = Callable[[int], None]
Answers = list[tuple["Draft", Added]]


class Bulk:
    """
    One long delivery of drafts.

    While the store writes one chunk the next is made, so that a million drafts never
    exist at once.  The next is sent when the store has answered: two on their way were
    not faster, and could overtake each other, so that jobs ran out of order.
    """

    def __init__(
        self,
        producer: Producer,
        drafts: Iterable[Draft],
        *,
        durable: bool = False,
        on_progress: OnAdded | None = None,
    ) -> None:
        self._producer = producer
        self._drafts = iter(drafts)
        self._durable = durable
        self._on_progress = on_progress
        self._answers: Answers = []

    async def deliver(self) -> Answers:
        """Add everything; return each draft with its answer."""
        try:
            chunk = self._load()
            while chunk:
                chunk = await self._add_and_load(chunk)
        except Exception as exc:
            exc.add_note(f"{len(self._answers)} of the jobs had been added")
            raise
        return self._answers

    async def _add_and_load(self, chunk: list[Draft]) -> list[Draft]:
        adding = asyncio.create_task(self._add(chunk), name="kue bulk")
        try:
            # The chunk goes out before we are busy with the next.
            await asyncio.sleep(0)
            return self._load()
        finally:
            # Also when the next cannot be made: what is on its way should be known.
            await adding

    def _load(self) -> list[Draft]:
        return list(islice(self._drafts, MAX_BATCH))

    async def _add(self, chunk: list[Draft]) -> None:
        added = await self._producer.add_batch(chunk, durable=self._durable)
        self._answers.extend(zip(chunk, added, strict=True))
        if self._on_progress is not None:
            self._on_progress(len(self._answers))
