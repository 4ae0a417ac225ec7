"""What all runs of a worker share: its store, progress sender, threads, processes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kue.aio.retry import StoreRetry
from kue.worker.pools.processes import ProcessPool
from kue.worker.pools.threads import WorkerThreads
from kue.worker.progress_sender import ProgressSender

if TYPE_CHECKING:
    from kue.store.contract import Store


class RunServices:
    """Lives as long as the worker; created on the worker's event loop."""

    def __init__(self, store: Store, url: str) -> None:
        self.store = store
        self.loop = asyncio.get_running_loop()
        self.store_retry = StoreRetry(store.name)
        self.progress_sender = ProgressSender(store)
        self.threads = WorkerThreads()
        self.children = ProcessPool(url)

    async def close(self) -> None:
        """Release threads and processes."""
        self.threads.close()
        await self.children.close()
