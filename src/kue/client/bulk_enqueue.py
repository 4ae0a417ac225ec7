"""Bulk enqueue: very many jobs, chunk by chunk, in the order given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from kue.store.batches import bytes_of_draft
from kue.store.values import MAX_BATCH, MAX_CALL_BYTES, Added

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from kue.client.connection import Connection
    from kue.client.enqueue_batcher import EnqueueBatcher
    from kue.model.job import Draft
    from kue.model.payload import JSON

#: Called with how many jobs were added, after each chunk.
OnAdded = Callable[[int], None]
Answers = list[tuple["Draft", Added]]


def drafts(
    connection: Connection,
    what: str | Iterable[Draft],
    data: Iterable[JSON],
    options: dict[str, Any],
) -> Iterator[Draft]:
    """Return *what* if it is drafts, else one of type *what* for each of *data*."""
    if not isinstance(what, str):
        return iter(what)
    template = connection.template(what, options)
    return map(template.draft, data)


class BulkEnqueue:
    """
    Adds many drafts.

    While the store writes one chunk the next is made, so that a million drafts never
    exist at once.  The next is sent when the store has answered: two in flight were not
    faster, and could overtake each other, so that jobs ran out of order.
    """

    def __init__(
        self,
        batcher: EnqueueBatcher,
        drafts: Iterable[Draft],
        *,
        durable: bool = False,
        on_progress: OnAdded | None = None,
    ) -> None:
        self._batcher = batcher
        self._drafts = iter(drafts)
        self._durable = durable
        self._on_progress = on_progress
        self._answers: Answers = []
        #: Made, but too large for the chunk before.
        self._left: list[Draft] = []

    async def deliver(self) -> Answers:
        """Add everything; return each draft with its answer."""
        with self._counting():
            chunk = self._load()
            while chunk:
                chunk = await self._add_and_load(chunk)
        return self._answers

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Add a note to an error: how many jobs were added."""
        try:
            yield
        except Exception as exc:
            exc.add_note(f"{len(self._answers)} of the jobs had been added")
            raise

    async def _add_and_load(self, chunk: list[Draft]) -> list[Draft]:
        adding = asyncio.create_task(self._add(chunk), name="kue bulk")
        try:
            # The chunk is sent before we are busy with the next.
            await asyncio.sleep(0)
            return self._load()
        finally:
            # Also when the next cannot be made: the outcome of this one must be known.
            await adding

    def _load(self) -> list[Draft]:
        """Make the next chunk: what the store writes as a whole, or not at all."""
        chunk, self._left = self._left, []
        size = sum(map(bytes_of_draft, chunk))
        for draft in islice(self._drafts, MAX_BATCH - len(chunk)):
            size += bytes_of_draft(draft)
            if chunk and size > MAX_CALL_BYTES:
                self._left = [draft]
                break
            chunk.append(draft)
        return chunk

    async def _add(self, chunk: list[Draft]) -> None:
        self._record(chunk, await self._batcher.add_batch(chunk, durable=self._durable))

    def _record(self, chunk: list[Draft], added: list[Added]) -> None:
        self._answers.extend(zip(chunk, added, strict=True))
        if self._on_progress is not None:
            self._on_progress(len(self._answers))
