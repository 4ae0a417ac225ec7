"""SyncKue: the blocking queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, TypeVar

from kue.aio.loop_thread import refuse_on_a_loop
from kue.client.builder import BaseJobBuilder
from kue.client.bulk_enqueue import BulkEnqueue, drafts
from kue.client.sync.event_iterator import iterate
from kue.client.sync.handle import SyncJobHandle, on_the_loop
from kue.client.sync.queue_methods import SyncQueueMethods
from kue.client.sync.worker_runner import SyncRunMethods

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kue.client.bulk_enqueue import OnAdded
    from kue.client.connection import Connection
    from kue.client.handle import JobHandle
    from kue.client.queue import Kue
    from kue.client.subscriptions import Callback
    from kue.client.sync.connection import BlockingCalls
    from kue.model.events import Event
    from kue.model.job import Draft, Job
    from kue.model.payload import JSON
    from kue.model.settings import Settings

T = TypeVar("T")


class SyncJobBuilder(BaseJobBuilder):
    """
    A job that is not saved yet.

    Every method checks its arguments at once and returns the builder::

        job = q.sync.create_job("email", {"to": "a@b.c"}).priority("high").save()
    """

    def __init__(
        self, calls: BlockingCalls, connection: Connection, type: str, data: JSON
    ) -> None:
        super().__init__(connection, type, data)
        self._calls = calls

    def save(self, *, durable: bool = False) -> SyncJobHandle[Any]:
        """Store the job and return its handle: see `kue.JobBuilder.save`."""
        handle = self._calls.call(lambda q: self._save(q._connection, durable=durable))
        return SyncJobHandle(self._calls, handle)


class SyncKue(SyncQueueMethods, SyncRunMethods):
    """
    A queue of jobs for code that does not await: threads, Django views, scripts.

    ``q.sync`` has the methods of `kue.Kue` under the same names; each waits for its
    result.  Any number of threads may call; what they add at the same time is sent
    together.  The first call starts a thread; a process that was forked starts its own.
    Closing it ends the thread and leaves the other side of the queue alone.

    Raises:
        RuntimeError: By every method that waits, in a thread that runs an event loop;
            the message names what to await instead.
    """

    def __repr__(self) -> str:
        return f"<SyncKue of {self._queue!r}>"

    @property
    def settings(self) -> Settings:
        return self._queue.settings

    def on_connection(self, name: str) -> SyncKue:
        """Return the same queue on another connection: see `kue.Kue.on_connection`."""
        return self._queue.on_connection(name).sync

    def open(self) -> str:
        """Connect now, and return a sentence on how durable the store is."""
        return self.call(lambda q: q.open())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- producing -------------------------------------------------------------

    def create_job(self, type: str, data: JSON = None) -> SyncJobBuilder:
        """Start building a job; ``….save()`` stores it."""
        return SyncJobBuilder(self, self._queue._connection, type, data)

    create = create_job

    def draft(self, type: str, data: JSON = None, **options: Any) -> Draft:
        """Return a job as a value, for `enqueue_many`; options as of `draft.draft`."""
        return self._queue.draft(type, data, **options)

    def enqueue(
        self, type: str, data: JSON = None, *, durable: bool = False, **options: Any
    ) -> SyncJobHandle[Any]:
        """Store a job: see `kue.Kue.enqueue`."""
        return self.held(
            self.call(lambda q: q.enqueue(type, data, durable=durable, **options))
        )

    def enqueue_many(
        self,
        what: str | Iterable[Draft],
        data: Iterable[JSON] = (),
        *,
        durable: bool = False,
        on_progress: OnAdded | None = None,
        **options: Any,
    ) -> list[SyncJobHandle[Any]]:
        """
        Store many jobs: one of type *what* for each of *data*, or drafts of any type.

        *what* and *data* are read, and *on_progress* is called, in this thread; else
        as `kue.Kue.enqueue_many`.
        """
        refuse_on_a_loop("await q.enqueue_many(…)")
        sync_connection = self._connected()
        connection = sync_connection.queue._connection
        sync_connection.loop.call(connection.subscriptions.ready())
        made = drafts(connection, what, data, options)
        bulk = BulkEnqueue(connection, made, durable, on_progress)
        handles = bulk.deliver_from_thread(sync_connection.loop)
        return [self.held(handle) for handle in handles]

    def handle(self, job: Job) -> SyncJobHandle[Any]:
        """Return the handle of a job that `page`, `range` or `find` returned."""
        return SyncJobHandle(self, self._queue.handle(job))

    def held(self, handle: JobHandle[T]) -> SyncJobHandle[T]:
        """Return a blocking handle of the same job."""
        return SyncJobHandle(self, handle)

    # -- events ----------------------------------------------------------------

    def on(self, event: str, callback: Callback) -> Self:
        """
        Call *callback* with each such event of any job, on the thread of `q.sync`.

        It must not block, nor call `q.sync`; it may be a coroutine function.  It
        receives every event after this returns.
        """
        refuse_on_a_loop("q.on(…)")
        self.call(_listen, event, callback)
        return self

    def off(self, event: str, callback: Callback | None = None) -> Self:
        """Unregister *callback*, or with None all callbacks of *event*."""
        refuse_on_a_loop("q.off(…)")
        self.call(lambda q: on_the_loop(lambda: q.off(event, callback)))
        return self

    def events(self, *names: str) -> Iterator[Event]:
        """Yield what happens to any job: everything, or the events named."""
        return iterate(
            self,
            lambda q: q.events(*names),
            instead="async for event in q.events(): …",
        )


async def _listen(queue: Kue, event: str, callback: Callback) -> None:
    queue.on(event, callback)
    await queue._connection.subscriptions.ready()
    await queue._connection.alert_events.ready()
