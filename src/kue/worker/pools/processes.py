"""
Process pool: child processes for handlers that must be killable.

A child runs one function, job after job.  It gets no store and inherits no variable
that could name one; it can only report on the job it was given, and the worker holds
the token.  When its run is cancelled, timed out or lost, it is killed with everything
it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import msgspec

from kue.model.errors import KueError, PayloadRefused
from kue.model.job import Completed
from kue.model.payload import decode
from kue.store import null_store
from kue.store.values import Result
from kue.worker.executor import RunEnded
from kue.worker.pools import protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.model.payload import JSON
    from kue.worker.active_run import ActiveRun

#: A child does not inherit variables with this prefix.
OURS = "KUE_"
#: A queue reads its URL from here, too; a program may use it for other purposes.
REDIS_URL = "REDIS_URL"
#: How long to wait for the exit code of a child that closed its connection.
EXIT_SECONDS = 2.0


class ProcessLost(Exception):
    """The process that ran the job ended before the job did."""


class FunctionTarget(NamedTuple):
    """Where a child finds the function it runs."""

    module: str
    #: A dotted path within the module.
    name: str
    #: The file to run when the module is ``__main__``, which cannot be imported.
    file: str | None = None


class ProcessPool:
    """The child processes of a worker; idle ones are reused."""

    def __init__(self, url: str = "") -> None:
        #: Of the queue; children do not get it.
        self._url = url
        self._idle: dict[FunctionTarget, list[PoolProcess]] = {}
        self._all: set[PoolProcess] = set()

    async def call(self, target: FunctionTarget, run: ActiveRun) -> JSON:
        """
        Run the function in a child process and return what it returned.

        Raises:
            RunEnded: It did not return; carries the ending.
            ProcessLost: The child died; the message has the cause.
        """
        child = await self._child(target)
        try:
            end = await child.call(run)
        except BaseException:
            await self._drop(child)
            raise
        self._idle.setdefault(target, []).append(child)
        if isinstance(end.ending, Completed) and not end.ending.reason:
            return _result(end.ending)
        raise RunEnded(end.ending, end.raised)

    async def close(self) -> None:
        """Kill every child."""
        for child in [*self._all]:
            await self._drop(child)

    async def _child(self, target: FunctionTarget) -> PoolProcess:
        idle = self._idle.get(target)
        while idle:
            child = idle.pop()
            if child.is_alive:
                return child
            await self._drop(child)
        child = PoolProcess(target, self._url)
        self._all.add(child)
        try:
            await child.start()
        except BaseException:
            await self._drop(child)
            raise
        return child

    async def _drop(self, child: PoolProcess) -> None:
        self._all.discard(child)
        await child.kill()


class PoolProcess:
    """One child process."""

    def __init__(self, target: FunctionTarget, url: str) -> None:
        self._target = target
        self._url = url
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = await asyncio.create_subprocess_exec(
                    *_command(self._target, theirs.fileno()),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env=environment(os.environ, self._url),
                    # Its own group, so that what it starts can be killed with it.
                    start_new_session=True,
                )
            self._reader, self._writer = await asyncio.open_connection(sock=ours)
        except BaseException:
            ours.close()
            raise

    async def call(self, run: ActiveRun) -> protocol.RunEnd:
        """Have the child run a job, and pass on what it reports."""
        assert self._reader is not None
        assert self._writer is not None
        try:
            self._writer.write(protocol.packed(msgspec.json.encode(run.job)))
            await self._writer.drain()
            while True:
                message = await self._receive(self._reader)
                if isinstance(message, protocol.RunEnd):
                    return message
                if isinstance(message, protocol.StepCall):
                    reply = await _answer(run, message)
                    self._writer.write(protocol.pack_reply(reply))
                    await self._writer.drain()
                elif isinstance(message, protocol.ChunkSent):
                    # Until there is room, the child has to wait.
                    await run.send(message.chunk)
                else:
                    self._pass_on(run, message)
        except (OSError, EOFError) as exc:
            raise ProcessLost(await self._cause_of_death()) from exc

    async def kill(self) -> None:
        """End the child and everything it started, now."""
        if self._writer is not None:
            self._writer.close()
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()

    async def _receive(self, reader: asyncio.StreamReader) -> protocol.Message:
        (length,) = protocol.LENGTH.unpack(
            await reader.readexactly(protocol.LENGTH.size)
        )
        if length > protocol.MAX_MESSAGE:
            raise ProcessLost(f"the process sent a message of {length:,} bytes")
        return protocol.unpack(await reader.readexactly(length))

    def _pass_on(
        self, run: ActiveRun, message: protocol.LogRecord | protocol.ProgressUpdate
    ) -> None:
        # We set the job and its token: a child can only report on its own job.
        if isinstance(message, protocol.LogRecord):
            run.services.progress_sender.send(run, message.line)
        else:
            update = msgspec.structs.replace(
                message.update, job_id=run.id, token=run.job.token
            )
            run.services.progress_sender.send(run, update)

    async def _cause_of_death(self) -> str:
        assert self._process is not None
        try:
            async with asyncio.timeout(EXIT_SECONDS):
                code = await self._process.wait()
        except TimeoutError:
            return "the process that ran the job closed its connection"
        return f"the process that ran the job {_cause(code)}"


async def _answer(run: ActiveRun, call: protocol.StepCall) -> protocol.StepReply:
    """Do what the handler asks for, with the steps of its own job."""
    store = run.step_store()
    try:
        if call.verb == "read":
            return protocol.StepReply(steps=await store.read())
        if call.verb == "record":
            word = await store.record(call.name, call.result, call.duration)
            return protocol.StepReply(word=word)
        found = await store.receive(call.name, call.number)
    except KueError as exc:
        is_refused = isinstance(exc, PayloadRefused)
        return protocol.StepReply(error=str(exc), is_refused=is_refused)
    if isinstance(found, Result):
        return protocol.StepReply(word=found)
    return protocol.StepReply(wait=found)


def environment(variables: Mapping[str, str], url: str) -> dict[str, str]:
    """Return the environment of a child: *variables* without the *url* of the queue."""
    kept = {
        name: value for name, value in variables.items() if not name.startswith(OURS)
    }
    queues = (url, variables.get("KUE_URL", ""))
    if any(_is_same_server(kept.get(REDIS_URL, ""), queue) for queue in queues):
        kept.pop(REDIS_URL, None)
    # Better an error than jobs in a file that no worker reads.
    kept["KUE_URL"] = null_store.URL
    # What can be imported here can be imported there.
    kept["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return kept


def _is_same_server(url: str, other: str) -> bool:
    """Return whether two URLs name the same Redis, whatever else differs."""
    return url == other or not _servers(url).isdisjoint(_servers(other))


def _servers(url: str) -> set[str]:
    """Return the hosts of a Redis URL, each with its port, or its socket."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return set()
    if parts.scheme == "unix":
        return {parts.path}
    if not parts.scheme.startswith("redis"):
        return set()
    hosts = parts.netloc.rpartition("@")[2].lower().split(",")
    return {
        host if re.search(r":\d+$", host) else f"{host or 'localhost'}:6379"
        for host in hosts
    }


def _command(target: FunctionTarget, descriptor: int) -> list[str]:
    command = [sys.executable, "-m", "kue.worker.pools.child"]
    command += [str(os.getpid()), str(descriptor)]
    return [*command, target.module, target.name, *filter(None, [target.file])]


def _cause(code: int) -> str:
    if code >= 0:
        return f"exited with code {code} before the job ended"
    hint = ", perhaps out of memory" if -code == signal.SIGKILL else ""
    return f"was killed by {signal_name(-code)}{hint}"


def signal_name(number: int) -> str:
    """Return what a signal is called; most real-time signals have no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _result(ending: Completed) -> JSON:
    result = ending.result
    return decode(result) if isinstance(result, msgspec.Raw) else result
