"""
Programs of ours as processes of their own, without the price of a start.

Importing Kue takes longer than most of these processes live.  So one process imports it
once, when the first test needs it, and forks itself for every program after that.  Each
is a process like any other, with a pid, memory, descriptors and signals of its own.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

_HOME = Path(__file__).parents[2]
#: The program that is ``kue`` of the command line; others are modules.
COMMAND = "kue"
MAX_REQUEST = 100_000
#: Bytes of a pid, and of an exit code.
WORD_BYTES = 4
#: What a request brings along: standard input, output and error of the process, and
#: where its end is reported.
DESCRIPTORS = 4


class Running:
    """A forked process, as far as `asyncio.subprocess.Process` has it."""

    def __init__(self, pid: int, stdin: int) -> None:
        self.pid = pid
        self.stdout = asyncio.StreamReader()
        self.stderr = asyncio.StreamReader()
        self._stdin = stdin
        self._status = asyncio.StreamReader()
        self._ending: asyncio.Task[int] | None = None
        self._transports: list[asyncio.ReadTransport] = []

    async def listen(self, ends: Sequence[int]) -> None:
        loop = asyncio.get_running_loop()
        readers = (self.stdout, self.stderr, self._status)
        for end, reader in zip(ends, readers, strict=True):
            protocol = partial(asyncio.StreamReaderProtocol, reader)
            pipe = os.fdopen(end, "rb", buffering=0)
            transport, _ = await loop.connect_read_pipe(protocol, pipe)
            self._transports.append(transport)
        self._ending = asyncio.create_task(self._end())

    async def _end(self) -> int:
        said = await self._status.readexactly(WORD_BYTES)
        return int.from_bytes(said, "big", signed=True)

    def write(self, data: bytes) -> None:
        """Let it read *data* from its standard input."""
        os.write(self._stdin, data)

    async def wait(self) -> int:
        """Return its exit code once it is gone; the negative number of a signal."""
        assert self._ending is not None
        return await asyncio.shield(self._ending)

    def send_signal(self, number: signal.Signals) -> None:
        assert self._ending is not None
        if self._ending.done():
            raise ProcessLookupError(f"process {self.pid} is gone")
        os.kill(self.pid, number)

    async def close(self) -> None:
        """Let go of a process that has ended."""
        await self.wait()
        os.close(self._stdin)
        for transport in self._transports:
            transport.close()


async def start(
    *arguments: str,
    cwd: Path = _HOME,
    environ: Mapping[str, str] = os.environ,
    has_log: bool = False,
) -> Running:
    """
    Start a program: the name of its module, or `COMMAND`, then what it is given.

    Its standard error is that of the tests, unless it *has_log* to be read.
    """
    program = {"arguments": arguments, "cwd": str(cwd), "env": dict(environ)}
    [stdin, stdout, stderr, status] = [os.pipe() for _ in range(DESCRIPTORS)]
    if not has_log:
        os.dup2(2, stderr[1], inheritable=False)
    theirs = [stdin[0], stdout[1], stderr[1], status[1]]
    pid = await asyncio.to_thread(_forker().fork, program, theirs)
    running = Running(pid, stdin[1])
    await running.listen([stdout[0], stderr[0], status[0]])
    return running


class _Forker:
    """The process that has everything imported."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forking", str(theirs.fileno())],
                cwd=_HOME,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def fork(self, program: dict[str, Any], descriptors: list[int]) -> int:
        """Return the pid of a new process, whose descriptors these are from then on."""
        with self._lock:
            socket.send_fds(self._link, [json.dumps(program).encode()], descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            said = self._link.recv(WORD_BYTES)
        assert said, "the process that forks is gone"
        return int.from_bytes(said, "big")

    def stop(self) -> None:
        self._link.close()
        self._process.wait()


@cache
def _forker() -> _Forker:
    forker = _Forker()
    atexit.register(forker.stop)
    return forker
