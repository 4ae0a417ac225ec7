"""Running workers in this process: run, work, stop, also by SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from kue.aio.event_loop import on_signals
from kue.aio.tasks import BackgroundTasks, cancel_all, wait_for_first
from kue.client.alert_registration import reconcile_alerts
from kue.client.batch_handle import JobFlows
from kue.client.declared_limits import write_limits
from kue.client.declared_schedules import reconcile
from kue.model.duration import Duration, milliseconds
from kue.worker.worker import GRACE_SECONDS, Worker, WorkerOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from kue.client.connection import Connection
    from kue.client.hooks import Hooks
    from kue.client.registry import HandlerRegistry

SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: How long a worker that stops waits for its schedules to be written.
RECONCILE_SECONDS = 1.0


@contextmanager
def stopped_by_signals(worker: Worker) -> Iterator[None]:
    """
    Stop *worker* on SIGINT or SIGTERM.

    The second signal requeues its jobs at once and removes these signal handlers, so
    that a third one ends the process.  Outside the main thread, where Python allows no
    signal handlers, nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = ExitStack()

    def stop() -> None:
        if worker.is_stopping:
            handlers.close()
        worker.stop()

    with handlers:
        handlers.enter_context(on_signals(dict.fromkeys(SIGNALS, stop)))
        yield


class WorkOptions(TypedDict, total=False):
    """What `Kue.work` takes."""

    grace: Duration
    concurrency: int | None
    name: str | None


class RunOptions(WorkOptions, total=False):
    """What `Kue.run` takes."""

    strict: bool
    burst: bool
    max_jobs: int | None
    supervised: bool
    on_start: Callable[[Worker], object] | None


class RunMethods:
    """The methods of a queue that run its jobs in this process."""

    _connection: Connection
    _handlers: HandlerRegistry
    _hooks: Hooks
    _workers: set[Worker]

    async def run(
        self,
        *,
        signals: bool = True,
        types: Iterable[str] | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        """
        Run jobs until stopped: by `stop`, or by SIGINT or SIGTERM with *signals*.

        Stopping waits up to *grace* (by default 30 seconds) for running jobs, then
        requeues them; a second signal requeues them at once.

        Args:
            types: Only these; else all that have a handler.

        Keyword Args:
            concurrency: How many jobs at once, all types together.
            strict: Serve types in the order given, not fairly; without *concurrency*
                they share as many slots as the type with the most has.
            burst: Return when nothing is left to do.
            max_jobs: Return after this many runs.
            name: The worker's name in the store; a pause of it survives a restart.
            supervised: Another process renews the lease.
            on_start: Called with the worker before it begins.

        Raises:
            ConfigError: No handler was registered.
            StoreRefused, StoreCorrupt: The store is not fit to keep jobs.
        """
        on_start = options.pop("on_start", None)
        worker, hook_calls = self._worker(types, **options)
        if on_start is not None:
            on_start(worker)
        if not signals:
            await self._run(worker, hook_calls)
            return
        with stopped_by_signals(worker):
            await self._run(worker, hook_calls)

    @asynccontextmanager
    async def work(
        self, *, types: Iterable[str] | None = None, **options: Unpack[WorkOptions]
    ) -> AsyncIterator[Worker]:
        """Run jobs during the body of ``async with q.work():``, and stop after it."""
        worker, hook_calls = self._worker(types, **options)
        running = asyncio.create_task(self._run(worker, hook_calls), name="kue work")
        try:
            yield worker
        finally:
            worker.stop()
            await running

    @property
    def working(self) -> frozenset[Worker]:
        """The workers that run jobs for this queue in this process."""
        return frozenset(self._workers)

    def stop(self) -> None:
        """Let every `run` and `work` of this queue claim no more jobs and return."""
        for worker in self._workers:
            worker.stop()

    def _worker(
        self, types: Iterable[str] | None, grace: Duration = GRACE_SECONDS, **rest: Any
    ) -> tuple[Worker, BackgroundTasks]:
        seconds = milliseconds(grace, field="grace") / 1000
        options = WorkerOptions(grace=seconds, **rest)
        hook_calls = BackgroundTasks()
        notify = partial(self._hooks.notify_failure, hook_calls)
        notify_alerts = partial(self._hooks.notify_alerts, hook_calls)
        worker = Worker(
            self._connection.store,
            self._handlers.processors(types, options.concurrency),
            self._connection.settings,
            options,
            on_failed=notify if self._hooks.failure else None,
            on_alerts=notify_alerts if self._hooks.alert else None,
            flow_access=JobFlows(self._connection),
        )
        return worker, hook_calls

    async def _run(self, worker: Worker, hook_calls: BackgroundTasks) -> None:
        self._workers.add(worker)
        async with AsyncExitStack() as stack:
            stack.callback(self._workers.discard, worker)
            await self._connection.subscriptions.ready()
            self._connection.alert_events.start()
            await self._hooks.start()
            stack.push_async_callback(self._hooks.stop)
            for resource in self._handlers.resources:
                stack.push_async_callback(resource.close)
            stack.push_async_callback(hook_calls.finish)
            if self._handlers.limits.rules:
                await self._write_limits(worker)
            await stack.enter_async_context(self._reconciling())
            await worker.run()

    async def _write_limits(self, worker: Worker) -> None:
        """Write the declared limits: no job may start before, unless it stops first."""
        write = partial(write_limits, self._connection.store, self._handlers.limits)
        writing = asyncio.create_task(
            self._connection.store_retry.persist("limits", write), name="kue limits"
        )
        try:
            await wait_for_first(writing, worker.until_stopping())
            error = writing.result() if writing.done() else None
        finally:
            await cancel_all([writing])
        if error is not None:
            raise error

    @asynccontextmanager
    async def _reconciling(self) -> AsyncIterator[None]:
        """Write the declared schedules and alerts to the store, in the background."""
        connection, handlers = self._connection, self._handlers
        stored = partial(
            reconcile, connection.store, handlers.schedules, handlers.modules
        )
        alerts = partial(
            reconcile_alerts, connection.store, handlers.alerts, handlers.modules
        )

        async def write() -> None:
            retry = connection.store_retry
            await asyncio.gather(
                retry.persist("schedules", stored), retry.persist("alerts", alerts)
            )

        writing = asyncio.create_task(write(), name="kue declarations")
        try:
            yield
            # Also a worker that had nothing to do writes them.
            await wait_for_first(writing, timeout=RECONCILE_SECONDS)
        finally:
            await cancel_all([writing])
