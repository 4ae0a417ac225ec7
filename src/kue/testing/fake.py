"""Faking a queue: jobs are recorded, and nothing runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from msgspec.structs import replace

from kue.client.connection import Connection
from kue.client.enqueue_batcher import EnqueueBatcher
from kue.client.sync import SyncKue
from kue.store import store_for
from kue.testing.added_jobs import AddedJobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.client.queue import Kue
    from kue.model.clock import TimeSource
    from kue.model.job import Draft
    from kue.model.settings import Settings
    from kue.store.contract import Store
    from kue.store.sqlite.store import SqliteStore
    from kue.store.values import Added


def fake(q: Kue | SyncKue, *, clock: TimeSource | None = None) -> FakedQueue:
    """
    Let a queue keep its jobs in memory, and record them, during the body::

        with kue.testing.fake(q) as jobs:
            client.post("/orders", json=order)
        jobs.assert_added(send_mail, to="ann@example.com")

    Whatever store the queue has is not used, and need not exist; `q.sync` and the tasks
    of the queue are faked as well.  Nothing runs, unless the test runs it:
    `kue.testing.run_all` runs the jobs that were added.  In async code ``async with``
    also waits for adds that were put off, as by ``after_response``.

    Args:
        q: The queue, or ``q.sync``.
        clock: The clock of the queue during the body, such as `kue.testing.Clock`.
    """
    return FakedQueue(q._queue if isinstance(q, SyncKue) else q, clock)


class FakedQueue:
    """A queue that is faked while the context lasts; see `fake`."""

    def __init__(self, queue: Kue, clock: TimeSource | None) -> None:
        self._queue = queue
        self._clock = clock or queue.clock
        self._jobs = AddedJobs()

    def __enter__(self) -> AddedJobs:
        queue = self._queue
        self._real = queue._home
        self._real_sync = queue._sync._sync_connection
        self._real_clock = queue.clock
        settings = replace(self._real.settings, url="memory://")
        store = store_for(settings, self._clock)
        self._connection = RecordingConnection(store, settings, self._jobs)
        listeners = self._connection.subscriptions.callbacks
        listeners.add_all(self._real.subscriptions.callbacks)
        queue._home = self._connection
        queue._sync._sync_connection = None
        queue.clock = self._clock
        return self._jobs

    def __exit__(self, *exc: object) -> None:
        self._restore()
        self._connection.background.cancel()
        cast("SqliteStore", self._connection.store).stop()

    async def __aenter__(self) -> AddedJobs:
        return self.__enter__()

    async def __aexit__(self, *exc: object) -> None:
        await self._connection.deferred.finish()
        self._restore()
        await self._connection.close()

    def _restore(self) -> None:
        sync = self._queue._sync
        if faked := sync._current():
            faked.loop.close()
        sync._sync_connection = self._real_sync
        self._queue._home = self._real
        self._queue.clock = self._real_clock


class RecordingConnection(Connection):
    """A connection that records what is added through it."""

    def __init__(self, store: Store, settings: Settings, jobs: AddedJobs) -> None:
        super().__init__(store, settings)
        self._jobs = jobs
        self.batcher = _RecordingBatcher(store, jobs)

    def twin(self) -> RecordingConnection:
        return RecordingConnection(self.store.twin(), self.settings, self._jobs)


class _RecordingBatcher(EnqueueBatcher):
    """Every add of a connection is a call of this."""

    def __init__(self, store: Store, jobs: AddedJobs) -> None:
        super().__init__(store)
        self._jobs = jobs

    async def add_call(
        self, drafts: Sequence[Draft], *, durable: bool = False
    ) -> list[Added]:
        added = await super().add_call(drafts, durable=durable)
        self._jobs.record(drafts, added)
        return added
