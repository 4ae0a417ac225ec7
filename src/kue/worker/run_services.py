"""What all runs of a worker share: its store, progress sender, threads, processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from kue.aio.retry import StoreRetry
from kue.worker.chunk_sender import ChunkSender, StreamLimits
from kue.worker.pools.processes import ProcessPool
from kue.worker.pools.threads import WorkerThreads
from kue.worker.progress_sender import ProgressSender

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.client.batch_handle import BatchHandle, Call
    from kue.model.job import Job
    from kue.model.settings import Settings
    from kue.store.contract import Store


class FlowAccess(Protocol):
    """What handlers do to flows; the client has it."""

    def batch(self, batch_id: int) -> BatchHandle: ...

    async def add(
        self, parent: Job, calls: Iterable[Call], *, holds_next: bool
    ) -> list[int]: ...


class RunServices:
    """Lives as long as the worker; created on the worker's event loop."""

    def __init__(
        self, store: Store, settings: Settings, flow_access: FlowAccess | None
    ) -> None:
        self.store = store
        self.loop = asyncio.get_running_loop()
        self.store_retry = StoreRetry(store.name)
        self._flow_access = flow_access
        limits = StreamLimits(settings.max_chunks, settings.max_stream)
        chunks = ChunkSender(store, self.store_retry, limits)
        self.progress_sender = ProgressSender(store, chunks)
        self.threads = WorkerThreads()
        self.children = ProcessPool(settings.url)

    @property
    def flow_access(self) -> FlowAccess:
        """
        What handlers do to flows.

        Raises:
            RuntimeError: The worker was not started by a queue.
        """
        if self._flow_access is None:
            raise RuntimeError("this worker was not started by a queue")
        return self._flow_access

    async def close(self) -> None:
        """Release threads and processes."""
        self.threads.close()
        await self.children.close()
