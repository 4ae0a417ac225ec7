"""
The process that forks itself into others: ``python -m tests.support.forking FD``.

It has imported what programs of ours need.  See `tests.support.warm`, which asks it for
processes over the socket FD, and reads from a pipe of each how that one ended.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import signal
import socket
import sys
from typing import Any, NamedTuple

from setproctitle import setproctitle

import kue.bus.redis
import kue.cli
import kue.cli.commands.dashboard_server
import kue.client.sync
import kue.runtime.shared.redis
import kue.store.redis.store
import kue.store.sqlite.store
from tests.support.warm import COMMAND, DESCRIPTORS, MAX_REQUEST, WORD_BYTES


class Request(NamedTuple):
    """A process to be: what it runs, where, and its descriptors 0 to 2."""

    program: dict[str, Any]
    descriptors: list[int]
    #: Where its end is to be reported.
    status: int


def main(fd: int) -> None:
    # What is there stays; looking through it would only copy its memory.
    gc.freeze()
    # Before the environment changes, where titles find their room.
    setproctitle("python -m tests.support.forking")
    # Ctrl-C is for the tests.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=fd) as link:
        request = _forked(link)
    if request is None:
        _bury()
    else:
        _become(request)


def _forked(link: socket.socket) -> Request | None:
    """Fork for each request; return it in its process, and None when there is none."""
    while request := _received(link):
        _bury()
        if not os.fork():
            return _keep(link, request)
        for descriptor in (*request.descriptors, request.status):
            os.close(descriptor)
    return None


def _bury() -> None:
    """Forget the processes that waited for programs which have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _received(link: socket.socket) -> Request | None:
    data, descriptors, _, _ = socket.recv_fds(link, MAX_REQUEST, DESCRIPTORS)
    if not data:
        return None
    *descriptors, status = descriptors
    return Request(json.loads(data), descriptors, status)


def _keep(link: socket.socket, request: Request) -> Request:
    """Fork a program, report its end, and end; in the program, return its request."""
    pid = os.fork()
    if not pid:
        os.close(request.status)
        return request
    for descriptor in request.descriptors:
        os.close(descriptor)
    link.send(pid.to_bytes(WORD_BYTES, "big"))
    link.close()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(request.status, code.to_bytes(WORD_BYTES, "big", signed=True))
    os._exit(0)


def _become(request: Request) -> None:
    """Be the program, to its end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(request.descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(request.program["cwd"])
    os.environ.clear()
    os.environ.update(request.program["env"])
    name, *arguments = sys.argv = request.program["arguments"]
    setproctitle(" ".join(sys.argv))
    if name == COMMAND:
        kue.cli.main(arguments)
    runpy.run_module(name, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
