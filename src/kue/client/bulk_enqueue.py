"""Bulk enqueue: very many jobs, chunk by chunk, in the order given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from kue.aio.loop_thread import wait
from kue.client.handle import added_handle
from kue.model.errors import QueueFull
from kue.store.batches import bytes_of_draft
from kue.store.values import MAX_BATCH, MAX_CALL_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from kue.aio.loop_thread import BackgroundLoop
    from kue.client.connection import Connection
    from kue.client.handle import JobHandle
    from kue.model.job import Draft
    from kue.model.payload import JSON
    from kue.store.values import Added

#: Called with how many jobs were added, after each chunk.
OnAdded = Callable[[int], None]


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


@dataclass(eq=False)
class BulkEnqueue:
    """
    Adds many drafts.

    While the store writes one chunk the next is made, so that a million drafts never
    exist at once.  The next is sent when the store has answered: two in flight were not
    faster, and could overtake each other, so that jobs ran out of order.
    """

    connection: Connection
    drafts: Iterator[Draft]
    durable: bool
    on_progress: OnAdded | None

    def __post_init__(self) -> None:
        self._handles: list[JobHandle[Any]] = []
        #: Made, but too large for the chunk before.
        self._left: list[Draft] = []

    async def deliver(self) -> list[JobHandle[Any]]:
        """Add everything; return the handles, in the order of the drafts."""
        with self._counting():
            chunk = self._load()
            while chunk:
                sent = chunk
                adding = asyncio.create_task(self._add(sent), name="kue bulk")
                try:
                    # The chunk is sent before we are busy with the next.
                    await asyncio.sleep(0)
                    chunk = self._load()
                finally:
                    # Also when the next cannot be made: we must know what was added.
                    self._record(sent, await adding)
        return self._handles

    def deliver_from_thread(self, loop: BackgroundLoop) -> list[JobHandle[Any]]:
        """
        Add everything on *loop*; drafts are made, and progress reported, here.

        The source of drafts may belong to this thread, as the cursor of a database
        does.
        """
        with self._counting():
            chunk = self._load()
            while chunk:
                sent = chunk
                adding = loop.start(self._add(sent))
                try:
                    chunk = self._load()
                finally:
                    self._record(sent, wait(adding))
        return self._handles

    @contextmanager
    def _counting(self) -> Iterator[None]:
        """Add a note to an error: how many jobs were added."""
        try:
            yield
        except Exception as exc:
            if isinstance(exc, QueueFull):
                exc.added += len(self._handles)
            added = exc.added if isinstance(exc, QueueFull) else len(self._handles)
            exc.add_note(f"{added} of the jobs had been added")
            raise

    def _load(self) -> list[Draft]:
        """Make the next chunk: what the store writes as a whole, or not at all."""
        chunk, self._left = self._left, []
        size = sum(map(bytes_of_draft, chunk))
        for draft in islice(self.drafts, MAX_BATCH - len(chunk)):
            size += bytes_of_draft(draft)
            if chunk and size > MAX_CALL_BYTES:
                self._left = [draft]
                break
            chunk.append(draft)
        return chunk

    async def _add(self, chunk: list[Draft]) -> list[Added]:
        return await self.connection.add_batch(chunk, durable=self.durable)

    def _record(self, chunk: list[Draft], added: list[Added]) -> None:
        self._handles += (
            added_handle(self.connection, draft.type, answer)
            for draft, answer in zip(chunk, added, strict=True)
        )
        if self.on_progress is not None:
            self.on_progress(len(self._handles))
