"""
Child process of the supervisor: ``python -m kue.supervisor.child_main TARGET FD``.

It imports the queue, runs its jobs, and communicates with the supervisor over the
socket FD.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from setproctitle import setproctitle

from kue.aio.event_loop import run
from kue.model.errors import ConfigError, KueError
from kue.supervisor import log_format
from kue.supervisor.app_loader import BadTarget, load
from kue.supervisor.child_worker import ChildWorker
from kue.supervisor.protocol import (
    MAX_LINE,
    StartFailed,
    StartOrder,
    decode_to_child,
    encode,
)

if TYPE_CHECKING:
    import logging
    from types import ModuleType

    from kue.client.queue import Kue
    from kue.supervisor.options import SupervisorOptions

#: Letters of a traceback that are sent.
MAX_DETAIL = 50_000
#: How long abandoned threads may delay the exit of the process.
EXIT_SECONDS = 3.0


def main(target: str, fd: int) -> int:
    supervisor = os.getppid()
    _prepare()
    # Programs that jobs start must not keep the connection open.
    os.set_inheritable(fd, False)
    with socket.socket(fileno=fd) as link:
        order = _receive_order(link)
        if order is None:
            return 1
        setproctitle(f"kue worker {target} #{order.number}")
        code = _serve(order, link)
    if os.getppid() != supervisor:
        # Do what it would: kill what handlers forked, and this process, too.
        sys.stdout.flush()
        sys.stderr.flush()
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
    return code


def _prepare() -> None:
    """Install signal handlers, and have a crash write its stacks."""
    # A crash in native code writes where it happened.
    faulthandler.enable()
    # The stack of every thread, even while one of them holds the interpreter.
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    # The supervisor decides on stopping and reloading.  Handlers, because ignored
    # signals would also be ignored by every program that a job starts.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: None)
    # A terminal may stop background processes, such as this one, that write to it.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)


def _receive_order(link: socket.socket) -> StartOrder | None:
    # Unbuffered: what follows this one line is for the event loop.
    with link.makefile("rb", buffering=0) as stream:
        data = stream.readline()
    if not data.endswith(b"\n"):
        return None
    order = decode_to_child(data)
    assert isinstance(order, StartOrder)
    return order


def _serve(order: StartOrder, link: socket.socket) -> int:
    options = order.options
    handler = log_format.configure(
        f"#{order.number}", format=options.log_format, level=options.log_level
    )
    try:
        # Outside of any event loop: modules may run one while they are imported.
        queue, module = load(options.target)
        queue = _on_connection(queue, options)
        run(_work(order, queue, module, link, handler))
    except KueError as exc:
        _fail(link, str(exc), exc.detail if isinstance(exc, BadTarget) else "")
        return 1
    except Exception as exc:
        _fail(link, f"{type(exc).__name__}: {exc}", traceback.format_exc())
        return 1
    return 0


def _on_connection(queue: Kue, options: SupervisorOptions) -> Kue:
    """Return the queue on the connection that was asked for."""
    if options.connection is not None:
        queue = queue.on_connection(options.connection)
    names = [member.connection_name or "" for member in queue.members]
    if names:
        raise ConfigError(
            f"{options.target} is a fail-over connection of {' and '.join(names)}: "
            f"start a worker for each of them (--connection {names[0]})"
        )
    return queue


async def _work(
    order: StartOrder,
    queue: Kue,
    module: ModuleType,
    link: socket.socket,
    handler: logging.Handler,
) -> None:
    child_worker = ChildWorker(
        queue,
        order.options,
        await asyncio.open_connection(sock=link.dup(), limit=MAX_LINE),
        folder=_folder(module),
        on_start=lambda worker: log_format.name_worker(handler, worker.name),
    )
    await child_worker.run()
    # Do not wait forever for threads, as Python does: their jobs were requeued.
    timer = threading.Timer(EXIT_SECONDS, os._exit, [0])
    timer.daemon = True
    timer.start()


def _folder(module: ModuleType) -> str | None:
    """Return where to watch for changes: the whole package that the module is in."""
    package = module.__name__.partition(".")[0]
    file = getattr(sys.modules.get(package, module), "__file__", None)
    return str(Path(file).resolve().parent) if file else None


def _fail(link: socket.socket, message: str, detail: str) -> None:
    failure = StartFailed(message[:MAX_DETAIL], detail[-MAX_DETAIL:])
    with contextlib.suppress(OSError):
        link.sendall(encode(failure))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
