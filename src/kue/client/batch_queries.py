"""Batches of a queue: find one by id, list them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.client.batch_handle import BatchHandle, BatchProgress
from kue.store.values import PageRequest
from kue.worker.batches import BATCH, is_batch

if TYPE_CHECKING:
    from kue.client.connection import Connection


class BatchPage(msgspec.Struct, frozen=True):
    """Some batches, and the cursor of the next page."""

    batches: list[BatchProgress]
    cursor: str | None


class Batches:
    """The methods of a queue about batches."""

    _connection: Connection

    def batch(self, batch_id: int) -> BatchHandle:
        """Return the handle of a batch; its methods read the store."""
        return BatchHandle(self._connection, batch_id)

    async def batches(self, *, limit: int = 50, cursor: str | None = None) -> BatchPage:
        """Return batches with their progress, the newest first."""
        store = self._connection.store
        page = await store.page(
            PageRequest(type=BATCH, limit=limit, cursor=cursor, descending=True)
        )
        # Anyone may add a job of that type by name, with any data.
        jobs = [job for job in page.jobs if is_batch(job)]
        counts = await store.flow_counts([job.id for job in jobs])
        found = [
            BatchProgress.of(job, count)
            for job, count in zip(jobs, counts, strict=True)
        ]
        return BatchPage(found, page.cursor)
