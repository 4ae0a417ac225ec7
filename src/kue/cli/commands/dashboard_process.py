"""
A dashboard in a process of its own, for ``kue up``.

Its parent holds the listening socket, so that a dashboard which died is followed by
another at the same place.  It hears of its parent's end by its standard input, which
ends with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

import click
import msgspec
from setproctitle import setproctitle

from kue.aio.event_loop import run
from kue.cli.commands import dashboard_server
from kue.cli.commands.dashboard_options import DashboardOptions
from kue.cli.output.terminal import DONE, MISUSED, REFUSED, UNAVAILABLE, say
from kue.model.errors import ConfigError, KueError, StoreUnavailable
from kue.supervisor import log_format as logs
from kue.supervisor.app_loader import BadTarget, load
from kue.supervisor.options import LogFormat

if TYPE_CHECKING:
    from kue.client.queue import Kue

logger = logging.getLogger(__name__)

#: Seconds before one that died is followed by another.
PAUSE_SECONDS = 1.0
#: Seconds it may take to stop.
STOP_SECONDS = 10.0


class DashboardRequest(msgspec.Struct, frozen=True):
    """What the process is told on its standard input."""

    target: str
    site: DashboardOptions
    log_format: LogFormat
    log_level: str


# -- in the parent ---------------------------------------------------------------


class DashboardProcess:
    """Keeps a dashboard alive."""

    def __init__(self, orders: DashboardRequest, listener: socket.socket) -> None:
        self._orders = orders
        self._listener = listener
        self._process: asyncio.subprocess.Process | None = None
        self._is_ending = False

    async def keep(self) -> int:
        """
        Start it, and another when it dies, until it is told to end.

        Returns its exit code once another would do no better, or all is over.
        """
        while True:
            code = await self._live()
            if self._is_ending or code == MISUSED:
                return code
            logger.error("the dashboard ended with code %d: starting it anew", code)
            await asyncio.sleep(PAUSE_SECONDS)

    async def end(self) -> None:
        """Have it stop, in order if it does so in time."""
        self._is_ending = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _live(self) -> int:
        fd = self._listener.fileno()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kue.cli.commands.dashboard_process", str(fd)),
            stdin=asyncio.subprocess.PIPE,
            pass_fds=[fd],
            # Ctrl-C is for the supervisor, which ends the dashboard last.
            process_group=0,
        )
        assert self._process.stdin is not None
        # One that is dead already says why by its exit code.
        with contextlib.suppress(OSError):
            self._process.stdin.write(msgspec.json.encode(self._orders) + b"\n")
            await self._process.stdin.drain()
        return await self._process.wait()


# -- in the process itself -------------------------------------------------------


def main(fd: int) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Terminals may stop whoever writes to them from the background, where we are.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    orders = msgspec.json.decode(sys.stdin.buffer.readline(), type=DashboardRequest)
    logs.configure("dashboard", format=orders.log_format, level=orders.log_level)
    setproctitle(f"kue dashboard of {orders.target}")
    os.set_inheritable(fd, False)
    with socket.socket(fileno=fd) as listener:
        try:
            run(_serve(_queue(orders.target), orders, listener))
        except KueError as exc:
            return _fail(exc)
    return DONE


def _queue(target: str) -> Kue:
    q, _ = load(target)
    if not q.is_shared:
        raise ConfigError(
            f"the jobs of {q.store.name} are seen by no other process, and so not by a "
            "dashboard; use a file: sqlite:///kue.db"
        )
    return q


async def _serve(q: Kue, orders: DashboardRequest, listener: socket.socket) -> None:
    async with q:
        with dashboard_server.stopped_by_signals() as stopping:
            # Readable means ended: nothing more is ever said.
            loop = asyncio.get_running_loop()
            loop.add_reader(sys.stdin.fileno(), stopping.set)
            command = f"up {orders.target}"
            await dashboard_server.serve(
                q, orders.site, listener, stopping, command=command
            )
            loop.remove_reader(sys.stdin.fileno())


def _fail(exc: KueError) -> int:
    if isinstance(exc, BadTarget) and exc.detail:
        click.echo(exc.detail, err=True, nl=False)
    say(str(exc))
    if isinstance(exc, StoreUnavailable):
        return UNAVAILABLE
    return MISUSED if isinstance(exc, ConfigError) else REFUSED


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
