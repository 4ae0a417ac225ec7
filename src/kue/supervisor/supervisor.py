"""The supervisor: starts children, renews their leases, stops them on SIGTERM."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from kue.aio.event_loop import on_signals
from kue.aio.tasks import wait_for_first
from kue.model.errors import KueError
from kue.model.version import version
from kue.supervisor.autoscaler import Autoscaler
from kue.supervisor.child_lease_renewal import ChildHeartbeats
from kue.supervisor.child_pool import ChildPool
from kue.supervisor.health_check import HealthCheck
from kue.supervisor.health_endpoints import HealthReporter, health_server
from kue.supervisor.source_watcher import Reloader
from kue.supervisor.systemd import SystemdNotifier
from kue.supervisor.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Any

    from kue.supervisor.options import SupervisorOptions
    from kue.supervisor.protocol import Hello, StartFailed

logger = logging.getLogger(__name__)


def banner(
    options: SupervisorOptions, hello: Hello, more: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the startup message, shown when the first child is up, for people."""
    facts = [
        *more,
        ("store", hello.store),
        ("", hello.durability),
        ("processes", _size(options, hello)),
        *(("" if n else "types", type) for n, type in enumerate(hello.types)),
        ("stop", f"Ctrl-C or SIGTERM: jobs may end within {options.grace:g} s"),
        ("", "twice: they are requeued at once"),
    ]
    if hello.is_private:
        facts.append(("note", "no other process sees these jobs"))
    if options.reload:
        facts.append(("reload", "when a Python file changes"))
    lines = [f"  {name:<9}  {fact}" for name, fact in facts]
    return "\n".join([_title(options), *lines])


def record(
    options: SupervisorOptions, hello: Hello, more: Sequence[tuple[str, str]] = ()
) -> str:
    """Return the same in one line, for logs."""
    types = ", ".join(hello.types)
    extra = "".join(f"; {name}: {fact}" for name, fact in more)
    return (
        f"{_title(options)} on {hello.store}: {hello.durability}; "
        f"{_size(options, hello)}; types: {types}{extra}"
    )


def _title(options: SupervisorOptions) -> str:
    return f"kue {version()} works on {options.target}"


def _size(options: SupervisorOptions, hello: Hello) -> str:
    jobs = "1 job" if hello.concurrency == 1 else f"{hello.concurrency} jobs"
    processes = str(options.processes)
    if options.is_scaling:
        processes += f" to {options.most}"
    if not hello.concurrency:
        # None of the queues that it is to serve is there yet.
        return processes
    return f"{processes} × {jobs} at once"


class NotStarted(KueError):
    """No child came up; *detail* is the traceback of the code that failed."""

    def __init__(self, failure: StartFailed) -> None:
        super().__init__(failure.message)
        self.detail = failure.detail


class Supervisor:
    """The parent process of ``kue worker``; *facts* are for its startup message."""

    def __init__(
        self, options: SupervisorOptions, *, facts: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._options = options
        self._facts = facts
        self._group = asyncio.TaskGroup()
        self._heartbeats = ChildHeartbeats()
        self._notifier = SystemdNotifier()
        self._reloader = Reloader(os.getcwd())
        self._pool = ChildPool(
            options, self._heartbeats, self._group, on_failed_start=self._fail
        )
        self._health_check = HealthCheck(self._pool, self._heartbeats)
        self._terminal = _terminal()
        self._stopping = asyncio.Event()
        self._stops = 0
        self._failure: StartFailed | None = None
        self._services: set[asyncio.Task[None]] = set()
        self._rolling: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Return the exit code once all children are gone: 0 if all exited cleanly."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._heartbeats.close)
            await self._prepare(stack)
            async with self._group:
                self._start_services()
                await self._work()
                for service in self._services:
                    service.cancel()
        if self._failure is not None:
            raise NotStarted(self._failure)
        return 0 if self._pool.is_clean else 1

    async def _prepare(self, stack: AsyncExitStack) -> None:
        options = self._options
        if options.health_port is not None:
            check = self._health_check.check
            server = health_server(options.health_host, options.health_port, check)
            await stack.enter_async_context(server)
        handlers = {
            signal.SIGINT: self.stop,
            signal.SIGTERM: self.stop,
            signal.SIGHUP: self.hang_up,
            signal.SIGTSTP: self.suspend,
        }
        stack.enter_context(on_signals(handlers))
        if options.reload:
            await self._reloader.begin()

    def _start_services(self) -> None:
        reporter = HealthReporter(
            self._health_check, self._notifier, self._options.health_file
        )
        self._serve(reporter.run())
        self._serve(Watchdog(self._options, self._pool).run())
        self._serve(self._show_startup_message())
        if self._options.is_scaling:
            autoscaler = Autoscaler(self._options, self._pool, self._heartbeats)
            self._serve(autoscaler.run())
        if self._options.reload:
            self._serve(self._reload())

    def _serve(self, service: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(service)
        self._services.add(task)
        return task

    async def _work(self) -> None:
        working = asyncio.create_task(self._pool.work(), name="kue child pool")
        await wait_for_first(working, self._stopping.wait())
        if self._stopping.is_set():
            self._pool.stop(self._options.grace)
        await working
        await self._pool.gone()

    # -- signals -----------------------------------------------------------------

    def stop(self) -> None:
        """Stop gracefully; a second call requeues jobs at once, a third kills."""
        self._stops += 1
        if self._stops == 1:
            logger.info(
                "stopping: jobs may end within %g s (signal again to requeue them now)",
                self._options.grace,
            )
            self._notifier.stopping()
            self._health_check.is_stopping = True
            self._stopping.set()
        elif self._stops == 2:
            logger.warning(
                "stopping now: requeueing running jobs (signal again to kill)"
            )
            self._pool.stop(0)
        else:
            logger.error("killing every worker process; their jobs will run again")
            self._pool.kill()

    def hang_up(self) -> None:
        """Restart; but stop if it is because the terminal was closed."""
        if self._terminal is not None and not _is_open(self._terminal):
            self.stop()
        else:
            self.restart()

    def restart(self) -> None:
        """Replace all children, one after the other."""
        is_rolling = self._rolling is not None and not self._rolling.done()
        if not is_rolling and not self._stopping.is_set():
            self._rolling = self._serve(self._roll())

    async def _roll(self) -> None:
        logger.info("replacing all worker processes, one after the other")
        self._notifier.reloading()
        is_done = await self._pool.roll()
        self._notifier.ready()
        if is_done:
            logger.info("all worker processes are replaced")

    def suspend(self) -> None:
        """Suspend this process and all children, as Ctrl-Z does; later resume them."""
        for child in self._pool.children:
            child.signal_all(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        for child in self._pool.children:
            child.signal_all(signal.SIGCONT)

    def _fail(self, failure: StartFailed) -> None:
        self._failure = failure
        self._stopping.set()

    # -- services ----------------------------------------------------------------

    async def _show_startup_message(self) -> None:
        hello = await self._pool.first
        if self._options.log_format == "json":
            logger.info("%s", record(self._options, hello, self._facts))
        elif logger.isEnabledFor(logging.INFO):
            text = banner(self._options, hello, self._facts)
            await asyncio.to_thread(sys.stderr.write, text + "\n")
        if self._options.reload and hello.folder is not None:
            await self._reloader.add(hello.folder)

    async def _reload(self) -> None:
        while True:
            changed = await self._reloader.changes()
            logger.info("%s changed: restarting", _shown(changed))
            self._pool.reload()


def _shown(paths: list[str]) -> str:
    first = os.path.relpath(paths[0])
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def _terminal() -> int | None:
    for stream in (sys.__stdin__, sys.__stderr__):
        if stream is not None and stream.isatty():
            return stream.fileno()
    return None


def _is_open(terminal: int) -> bool:
    try:
        os.tcgetpgrp(terminal)
    except OSError:
        return False
    return True
