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
from kue.client import failure_hooks
from kue.client.alert_registration import reconcile_alerts
from kue.client.batch_handle import JobFlows
from kue.client.declared_failures import write_failure_rules
from kue.client.declared_limits import write_limits
from kue.client.declared_schedules import reconcile
from kue.model.duration import Duration, milliseconds
from kue.model.errors import ConfigError
from kue.model.queue_patterns import QueuePatterns
from kue.worker.failure_reporter import FailureOptions
from kue.worker.worker import GRACE_SECONDS, Worker, WorkerOptions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from kue.client.connection import Connection
    from kue.client.hooks import FailureHook, Hooks
    from kue.client.registry import HandlerRegistry
    from kue.model.failure_rule import FailureRule
    from kue.worker.lane import Processor
    from kue.worker.worker import FindQueues

SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: How long a worker that stops waits for its schedules to be written.
RECONCILE_SECONDS = 1.0


@contextmanager
def stopped_by_signals(worker: Worker | RunMethods) -> Iterator[None]:
    """
    Stop *worker*, or all workers of a queue, on SIGINT or SIGTERM.

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


def _repeatable(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else list(names)


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
        queues: Iterable[str] | None = None,
        **options: Unpack[RunOptions],
    ) -> None:
        """
        Run jobs until stopped: by `stop`, or by SIGINT or SIGTERM with *signals*.

        Stopping waits up to *grace* (by default 30 seconds) for running jobs, then
        requeues them; a second signal requeues them at once.

        Args:
            types: Only these; else all that have a handler.
            queues: The queues to serve instead, by name or pattern: ``mail-*``; all
                but one: ``!mail-bulk``.  Queues that match are found as they appear.

        Keyword Args:
            concurrency: How many jobs at once, all types together.
            strict: Serve types in the order given, not fairly; without *concurrency*
                they share as many slots as the type with the most has.
            burst: Return when nothing is left to do.
            max_jobs: Return after this many runs.
            name: The worker's name in the store; a pause of it survives a restart.  It
                waits while another worker of this name is alive.
            supervised: Another process renews the lease.
            on_start: Called with the worker before it begins.

        Raises:
            ConfigError: No handler was registered, or both types and queues are given.
            StoreRefused, StoreCorrupt: The store is not fit to keep jobs.
        """
        if members := self._to_run():
            await self._run_each(members, signals, types, queues, options)
            return
        on_start = options.pop("on_start", None)
        worker, hook_calls = self._worker(types, queues, **options)
        if on_start is not None:
            on_start(worker)
        if not signals:
            await self._run(worker, hook_calls)
            return
        with stopped_by_signals(worker):
            await self._run(worker, hook_calls)

    @asynccontextmanager
    async def work(
        self,
        *,
        types: Iterable[str] | None = None,
        queues: Iterable[str] | None = None,
        **options: Unpack[WorkOptions],
    ) -> AsyncIterator[Worker]:
        """Run jobs during the body of ``async with q.work():``, and stop after it."""
        if members := self._to_run():
            async with AsyncExitStack() as stack:
                given = _repeatable(types), _repeatable(queues)
                for queue in members:
                    work = queue.work(types=given[0], queues=given[1], **options)
                    worker = await stack.enter_async_context(work)
                yield worker
            return
        worker, hook_calls = self._worker(types, queues, **options)
        running = asyncio.create_task(self._run(worker, hook_calls), name="kue work")
        try:
            yield worker
        finally:
            worker.stop()
            await running

    @property
    def members(self) -> Sequence[RunMethods]:
        """Queues that a worker serves in place of this one."""
        raise NotImplementedError

    def _to_run(self) -> Sequence[RunMethods]:
        members = self.members
        for queue in members:
            # So that they stop with this one.
            queue._workers = self._workers
        return members

    async def _run_each(
        self,
        members: Sequence[RunMethods],
        signals: bool,
        types: Iterable[str] | None,
        queues: Iterable[str] | None,
        options: RunOptions,
    ) -> None:
        given = _repeatable(types), _repeatable(queues)
        async with AsyncExitStack() as stack:
            if signals:
                stack.enter_context(stopped_by_signals(self))
            group = await stack.enter_async_context(asyncio.TaskGroup())
            for queue in members:
                run = queue.run(
                    signals=False, types=given[0], queues=given[1], **options
                )
                group.create_task(run)

    @property
    def is_stopping(self) -> bool:
        """Whether a worker of this queue was asked to stop."""
        return any(worker.is_stopping for worker in self._workers)

    @property
    def working(self) -> frozenset[Worker]:
        """The workers that run jobs for this queue in this process."""
        return frozenset(self._workers)

    def stop(self) -> None:
        """Let every `run` and `work` of this queue claim no more jobs and return."""
        for worker in self._workers:
            worker.stop()

    def _worker(
        self,
        types: Iterable[str] | None,
        queues: Iterable[str] | None,
        grace: Duration = GRACE_SECONDS,
        **rest: Any,
    ) -> tuple[Worker, BackgroundTasks]:
        seconds = milliseconds(grace, field="grace") / 1000
        options = WorkerOptions(grace=seconds, **rest)
        hook_calls = BackgroundTasks()
        rules = self._failure_rules
        notify_alerts = partial(self._hooks.notify_alerts, hook_calls)
        processors, find_queues = self._served(types, queues, options.concurrency)
        worker = Worker(
            self._connection.store,
            processors,
            self._connection.settings,
            options,
            find_queues=find_queues,
            failures=FailureOptions(
                types=frozenset(type for type, rule in rules.items() if rule.is_asked),
                hooks=self._hook_processor(rules),
            ),
            on_alerts=notify_alerts if self._hooks.alert else None,
            on_error=self._connection.errors.report,
            flow_access=JobFlows(self._connection),
        )
        return worker, hook_calls

    def _served(
        self,
        types: Iterable[str] | None,
        queues: Iterable[str] | None,
        concurrency: int | None,
    ) -> tuple[list[Processor], FindQueues | None]:
        if queues is None:
            return self._handlers.processors(types, concurrency), None
        if types is not None:
            raise ConfigError("give types or queues, not both")
        patterns = QueuePatterns(queues)
        find = partial(self._handlers.queue_processors, patterns, concurrency)
        may_find = patterns.is_open and self._handlers.own_queues
        return find(()), find if may_find else None

    def _hook_processor(self, rules: dict[str, FailureRule]) -> Processor | None:
        if not any(rule.hooks for rule in rules.values()):
            return None
        return failure_hooks.processor(self._connection.store, self._failure_hooks)

    def _failure_hooks(self, type: str) -> Sequence[FailureHook]:
        return self._handlers.failure_hooks(type, self._hooks.failure)

    @property
    def _failure_rules(self) -> dict[str, FailureRule]:
        return self._handlers.failure_rules(
            self._hooks.failure, self._connection.settings.dead_letter
        )

    async def _run(self, worker: Worker, hook_calls: BackgroundTasks) -> None:
        self._workers.add(worker)
        async with AsyncExitStack() as stack:
            stack.callback(self._workers.discard, worker)
            await self._connection.subscriptions.ready()
            self._connection.alert_events.start()
            await self._hooks.start()
            stack.push_async_callback(self._hooks.stop)
            self._handlers.workers += 1
            stack.push_async_callback(self._close_resources)
            stack.push_async_callback(hook_calls.finish)
            rules = self._failure_rules
            are_asked = any(rule.is_asked for rule in rules.values())
            if self._handlers.limits.rules or are_asked:
                await self._write_rules(worker, rules)
            await stack.enter_async_context(
                self._reconciling({} if are_asked else rules)
            )
            await worker.run()

    async def _close_resources(self) -> None:
        """Close what jobs share, unless another worker of the queue goes on."""
        self._handlers.workers -= 1
        if not self._handlers.workers:
            for resource in reversed(self._handlers.resources):
                await resource.close()

    async def _write_rules(self, worker: Worker, rules: dict[str, FailureRule]) -> None:
        """Write declared limits and failure rules: no job may start before."""
        store = self._connection.store

        async def write() -> ConfigError | None:
            await write_failure_rules(store, rules)
            return await write_limits(store, self._handlers.limits)

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
    async def _reconciling(self, rules: dict[str, FailureRule]) -> AsyncIterator[None]:
        """Write the declared schedules and alerts to the store, in the background."""
        connection, handlers = self._connection, self._handlers
        stored = partial(
            reconcile, connection.store, handlers.schedules, handlers.modules
        )
        alerts = partial(
            reconcile_alerts, connection.store, handlers.alerts, handlers.modules
        )

        # Those that the program no longer declares end.
        failures = partial(write_failure_rules, connection.store, rules)

        async def write() -> None:
            retry = connection.store_retry
            await asyncio.gather(
                retry.persist("schedules", stored),
                retry.persist("alerts", alerts),
                retry.persist("failure rules", failures),
            )

        writing = asyncio.create_task(write(), name="kue declarations")
        try:
            yield
            # Also a worker that had nothing to do writes them.
            await wait_for_first(writing, timeout=RECONCILE_SECONDS)
        finally:
            await cancel_all([writing])
