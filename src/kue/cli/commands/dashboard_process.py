"""
The dashboard as a child process, for ``kue up``.

The parent holds the listening socket, so that a restarted dashboard has the same
address.  When the parent dies, the child's standard input is closed, and the child
stops.
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

import msgspec
from setproctitle import setproctitle

from kue.aio.event_loop import run
from kue.cli.commands import dashboard_server
from kue.cli.commands.dashboard import DashboardOptions
from kue.cli.output.console import DONE, MISUSED, print_error
from kue.model.errors import ConfigError, KueError
from kue.supervisor import log_format as logs
from kue.supervisor.app_loader import load
from kue.supervisor.options import LogFormat

if TYPE_CHECKING:
    from kue.client.queue import Kue

logger = logging.getLogger(__name__)

#: Seconds before a dashboard that died is restarted.
PAUSE_SECONDS = 1.0
#: Seconds it may take to stop.
STOP_SECONDS = 10.0


class DashboardRequest(msgspec.Struct, frozen=True):
    """What the parent sends to the child's standard input."""

    target: str
    site: DashboardOptions
    log_format: LogFormat
    log_level: str


# -- in the parent ---------------------------------------------------------------


class DashboardProcess:
    """Runs a dashboard, and restarts it when it dies."""

    def __init__(self, request: DashboardRequest, listener: socket.socket) -> None:
        self._request = request
        self._listener = listener
        self._process: asyncio.subprocess.Process | None = None
        self._is_ending = False

    async def keep(self) -> int:
        """Keep it running until `end`, or until a restart would fail as well."""
        while True:
            code = await self._run()
            if self._is_ending or code == MISUSED:
                return code
            logger.error("the dashboard exited with code %d: restarting it", code)
            await asyncio.sleep(PAUSE_SECONDS)

    async def end(self) -> None:
        """Stop it gracefully; kill it if that takes too long."""
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

    async def _run(self) -> int:
        fd = self._listener.fileno()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kue.cli.commands.dashboard_process", str(fd)),
            stdin=asyncio.subprocess.PIPE,
            pass_fds=[fd],
            # Ctrl-C is for the supervisor, which stops the dashboard last.
            process_group=0,
        )
        assert self._process.stdin is not None
        # If it has died already, its exit code is what matters.
        with contextlib.suppress(OSError):
            self._process.stdin.write(msgspec.json.encode(self._request) + b"\n")
            await self._process.stdin.drain()
        return await self._process.wait()


# -- in the process itself -------------------------------------------------------


def main(fd: int) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Terminals may stop a background process, such as this one, that writes to them.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    request = msgspec.json.decode(sys.stdin.buffer.readline(), type=DashboardRequest)
    logs.configure("dashboard", format=request.log_format, level=request.log_level)
    setproctitle(f"kue dashboard of {request.target}")
    os.set_inheritable(fd, False)
    with socket.socket(fileno=fd) as listener:
        try:
            run(_serve(_queue(request.target), request, listener))
        except KueError as exc:
            return print_error(exc)
    return DONE


def _queue(target: str) -> Kue:
    q, _ = load(target)
    if q.is_private:
        raise ConfigError(
            f"the jobs of {q.store.name} are visible only in their own process, not in "
            "a dashboard; use a file: sqlite:///kue.db"
        )
    return q


async def _serve(q: Kue, request: DashboardRequest, listener: socket.socket) -> None:
    # Readable means closed: the parent sends nothing more.
    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), stopping.set)
    command = f"up {request.target}"
    await dashboard_server.serve(q, request.site, listener, stopping, command=command)
    loop.remove_reader(sys.stdin.fileno())


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
