"""The supervisor: starts children, beats for them, and ends them in order."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from kue.model.errors import KueError
from kue.supervisor.child_heartbeat import ChildHeartbeats
from kue.supervisor.child_pool import ChildPool
from kue.supervisor.health import HealthCheck
from kue.supervisor.health_report import HealthReporter
from kue.supervisor.health_server import health_server
from kue.supervisor.reloader import Reloader
from kue.supervisor.signals import received
from kue.supervisor.startup_message import banner, record
from kue.supervisor.systemd import SystemdNotifier
from kue.supervisor.watchdog import Watchdog

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from typing import Any

    from kue.supervisor.options import SupervisorOptions
    from kue.supervisor.protocol import StartFailed

logger = logging.getLogger(__name__)

#: What `Supervisor.run` returns: all left in order, or not.
IN_ORDER, NOT_IN_ORDER = 0, 1


class NotStarted(KueError):
    """No child came up; *detail* is the traceback of the code that failed."""

    def __init__(self, failure: StartFailed) -> None:
        super().__init__(failure.message)
        self.detail = failure.detail


class Supervisor:
    """
    What ``kue worker`` does.

    Args:
        facts: What its greeting says besides: names and values.
    """

    def __init__(
        self, options: SupervisorOptions, *, facts: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._options = options
        self._facts = facts
        self._group = asyncio.TaskGroup()
        self._pacemaker = ChildHeartbeats()
        self._notifier = SystemdNotifier()
        self._watcher = Reloader(os.getcwd())
        self._staff = ChildPool(
            options, self._pacemaker, self._group, on_failed_start=self._give_up
        )
        self._examiner = HealthCheck(self._staff, self._pacemaker)
        self._stopping = asyncio.Event()
        self._stops = 0
        self._failure: StartFailed | None = None
        self._services: set[asyncio.Task[None]] = set()
        self._rolling: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """
        Return the exit code once every child is gone.

        Raises:
            NotStarted: The first child did not come up.
            ConfigError: The health server cannot listen.
        """
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._pacemaker.close)
            await self._prepare(stack)
            async with self._group:
                self._begin()
                await self._work()
                self._end()
        if self._failure is not None:
            raise NotStarted(self._failure)
        return IN_ORDER if self._staff.in_order else NOT_IN_ORDER

    async def _prepare(self, stack: AsyncExitStack) -> None:
        options = self._options
        if options.health_port is not None:
            examine = self._examiner.examine
            server = health_server(options.health_host, options.health_port, examine)
            await stack.enter_async_context(server)
        stack.enter_context(
            received(stop=self.stop, restart=self.restart, suspend=self.suspend)
        )
        if options.reload:
            await self._watcher.begin()

    def _begin(self) -> None:
        reporter = HealthReporter(
            self._examiner, self._notifier, self._options.health_file
        )
        self._serve(reporter.run())
        self._serve(Watchdog(self._options, self._staff).run())
        self._serve(self._greet())
        if self._options.reload:
            self._serve(self._reload())

    def _serve(self, service: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(service)
        self._services.add(task)
        return task

    def _end(self) -> None:
        for service in self._services:
            service.cancel()

    async def _work(self) -> None:
        working = asyncio.create_task(self._staff.work(), name="kue staff")
        asking = asyncio.create_task(self._stopping.wait(), name="kue stop")
        await asyncio.wait([working, asking], return_when=asyncio.FIRST_COMPLETED)
        asking.cancel()
        if self._stopping.is_set():
            self._staff.disband(self._options.grace)
        await working
        await self._staff.gone()

    # -- what it can be told -----------------------------------------------------

    def stop(self) -> None:
        """Leave in order; a second time: hand jobs back at once; a third time: kill."""
        self._stops += 1
        if self._stops == 1:
            logger.info(
                "stopping: jobs may end within %g s; once more hands them back at once",
                self._options.grace,
            )
            self._notifier.stopping()
            self._examiner.is_stopping = True
            self._stopping.set()
        elif self._stops == 2:
            logger.warning("stopping at once: jobs are handed back; once more kills")
            self._staff.disband(0)
        else:
            logger.error("killing every worker process; their jobs will run again")
            self._staff.kill()

    def restart(self) -> None:
        """Replace all children, one after the other."""
        is_rolling = self._rolling is not None and not self._rolling.done()
        if not is_rolling and not self._stopping.is_set():
            self._rolling = self._serve(self._roll())

    async def _roll(self) -> None:
        logger.info("replacing all worker processes, one after the other")
        self._notifier.reloading()
        is_done = await self._staff.roll()
        self._notifier.ready()
        if is_done:
            logger.info("all worker processes are replaced")

    def suspend(self) -> None:
        """Do what Ctrl-Z asks for, with all children; go on with them later."""
        for child in self._staff.children:
            child.freeze()
        os.kill(os.getpid(), signal.SIGSTOP)
        for child in self._staff.children:
            child.thaw()

    def _give_up(self, failure: StartFailed) -> None:
        self._failure = failure
        self._stopping.set()

    # -- services ----------------------------------------------------------------

    async def _greet(self) -> None:
        hello = await self._staff.first
        if self._options.log_format == "json":
            logger.info("%s", record(self._options, hello, self._facts))
        elif logger.isEnabledFor(logging.INFO):
            text = banner(self._options, hello, self._facts)
            await asyncio.to_thread(_write, text)
        if self._options.reload and hello.folder is not None:
            await self._watcher.add(hello.folder)

    async def _reload(self) -> None:
        while True:
            changed = await self._watcher.changes()
            logger.info("%s changed: restarting", _shown(changed))
            self._staff.reload()


def _write(text: str) -> None:
    sys.stderr.write(text + "\n")


def _shown(paths: list[str]) -> str:
    first = os.path.relpath(paths[0])
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"
