"""Bulk enqueue from blocking code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.aio.loop_thread import wait
from kue.client.bulk_enqueue import Answers, BulkEnqueue

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.client.bulk_enqueue import OnAdded
    from kue.client.sync.connection import SyncConnection
    from kue.model.job import Draft


class SyncBulkEnqueue(BulkEnqueue):
    """
    Adds many drafts, which are made in the calling thread.

    Their source may belong to that thread, as the cursor of a database does, and so may
    the callback for progress.
    """

    def __init__(
        self,
        connection: SyncConnection,
        drafts: Iterable[Draft],
        *,
        durable: bool = False,
        on_progress: OnAdded | None = None,
    ) -> None:
        super().__init__(
            connection.queue._connection.batcher,
            drafts,
            durable=durable,
            on_progress=on_progress,
        )
        self._loop = connection.loop

    def deliver_here(self) -> Answers:
        """Add everything; return each draft with its answer."""
        with self._counting():
            chunk = self._load()
            while chunk:
                chunk = self._add_and_load_here(chunk)
        return self._answers

    def _add_and_load_here(self, chunk: list[Draft]) -> list[Draft]:
        adding = self._loop.start(self._batcher.add_batch(chunk, durable=self._durable))
        try:
            return self._load()
        finally:
            # Also when the next cannot be made: the outcome of this one must be known.
            self._record(chunk, wait(adding))
