"""
Child process of a process pool: runs one function, job after job.

``python -m kue.worker.pools.child WORKER DESCRIPTOR MODULE NAME [FILE]``: started by
the worker with that process id, and connected to it by the descriptor.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import inspect
import operator
import os
import runpy
import signal
import socket
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, TypeVar

import msgspec

from kue.aio.callbacks import awaited
from kue.model.arguments import Arguments
from kue.model.errors import PayloadRefused, SoftTimeout, StoreError
from kue.model.job import Job
from kue.model.steps import JobSteps, Step
from kue.store.values import LogLine, Result
from kue.worker import log_capture
from kue.worker.active_job import ActiveJob
from kue.worker.current_job import CURRENT
from kue.worker.executor import ending_of, ending_of_result
from kue.worker.generators import send_all, send_each
from kue.worker.pools import protocol
from kue.worker.pools.child_names import CHILD_MAIN, class_names
from kue.worker.progress_values import ProgressReply

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from kue.store.values import Progress
    from kue.worker.durable_steps import StepStore

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: Option of prctl: send us a signal when our parent process ends.
PR_SET_PDEATHSIG = 1

_decode_job = msgspec.json.Decoder(Job).decode


class PipeProgressSink:
    """Sends what the job reports to the worker; a `ProgressSink`."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self.stream = link.makefile("rb")
        self._lock = threading.Lock()

    def send(self, active: ActiveJob, report: Progress | LogLine) -> ProgressReply:
        message: protocol.Message
        if isinstance(report, LogLine):
            message = protocol.LogRecord(report)
        else:
            message = protocol.ProgressUpdate(report)
        return self._send(active, message)

    def send_chunk(self, active: ActiveJob, chunk: msgspec.Raw) -> ProgressReply:
        # If the worker does not read on, because the store is slow, this waits.
        return self._send(active, protocol.ChunkSent(chunk))

    def _send(self, active: ActiveJob, message: protocol.Message) -> ProgressReply:
        with self._lock:
            self._link.sendall(protocol.pack(message))
        return ProgressReply(active.id, "", None)

    def ask(self, call: protocol.StepCall) -> protocol.StepReply:
        """Return what the worker replies; it sends nothing else during a run."""
        with self._lock:
            self._link.sendall(protocol.pack(call))
            payload = _receive(self.stream)
        if payload is None:
            raise ConnectionError("the worker is gone")
        reply = protocol.unpack_reply(payload)
        if reply.error:
            kind = PayloadRefused if reply.is_refused else StoreError
            raise kind(reply.error)
        return reply


class ChildStepStore:
    """Asks the worker about the steps of the job; a `StepStore`."""

    def __init__(self, sink: PipeProgressSink) -> None:
        self._sink = sink

    async def read(self) -> JobSteps:
        reply = self._sink.ask(protocol.StepCall("read"))
        return reply.steps or JobSteps()

    async def record(self, name: str, result: msgspec.Raw, duration: int) -> Result:
        call = protocol.StepCall(
            "record", name=name, result=msgspec.Raw(result), duration=duration
        )
        return Result(self._sink.ask(call).word)

    async def receive(self, signal: str, number: int) -> Step | Result | None:
        call = protocol.StepCall("receive", name=signal, number=number)
        reply = self._sink.ask(call)
        return Result(reply.word) if reply.word else reply.wait

    async def call(self, function: Callable[[], Any]) -> Any:
        # Nothing else runs in this process.
        return function()

    def block(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(call)


class ChildJob(ActiveJob):
    """A job while it runs in a child process."""

    __slots__ = ("_pipe",)

    def __init__(self, job: Job, pipe: PipeProgressSink) -> None:
        super().__init__(job, pipe)
        self._pipe = pipe

    def step_store(self) -> StepStore:
        return ChildStepStore(self._pipe)


def main(arguments: list[str]) -> None:
    """Run jobs until the worker is gone."""
    worker, descriptor, module, name, *file = arguments
    _die_with_parent()
    signal.signal(signal.SIGALRM, _raise_soft_timeout)
    link = socket.socket(fileno=int(descriptor))
    # Programs that the handler starts must not keep the connection open.
    os.set_inheritable(link.fileno(), False)
    handler = _found(module, name, *file)
    sink = PipeProgressSink(link)
    # If the worker is gone, its job is or will be reclaimed.
    with log_capture.captured(), contextlib.suppress(ConnectionError):
        while (payload := _receive(sink.stream)) is not None:
            # The worker may have died before _die_with_parent, with its job still in
            # the socket: another worker has that job by now.
            if os.getppid() != int(worker):
                return
            end = run(ChildJob(_decode_job(payload), sink), handler)
            link.sendall(protocol.pack(end))


def run(active: ActiveJob, handler: Callable[[ActiveJob], Any]) -> protocol.RunEnd:
    """Run *handler* and return how it ended, whatever it raised."""
    token = CURRENT.set(active)
    try:
        _set_soft_timeout(active.job.spec.soft_timeout)
        result = handler(active)
        if inspect.isasyncgen(result):
            result = send_each(active, result)
        elif inspect.isgenerator(result):
            result = send_all(active, result)
        if inspect.isawaitable(result):
            result = asyncio.run(awaited(result))
        _set_soft_timeout(0)
        end = protocol.RunEnd(ending_of_result(result))
    except BaseException as exc:
        end = protocol.RunEnd(ending_of(active, exc), class_names(type(exc)))
    finally:
        _set_soft_timeout(0)
        CURRENT.reset(token)
    log_capture.finish(active)
    return end


def _set_soft_timeout(milliseconds: int) -> None:
    """Have `SoftTimeout` raised in the handler, which runs in the main thread."""
    signal.setitimer(signal.ITIMER_REAL, milliseconds / 1000)


def _raise_soft_timeout(number: int, frame: object) -> NoReturn:
    raise SoftTimeout


def find(module: str, name: str, file: str | None = None) -> Callable[..., Any]:
    """Return a function that runs a job with the function or task of that name."""
    if file is None:
        space: Any = importlib.import_module(module)
        found = operator.attrgetter(name)(space)
    else:
        # Not as __main__: we need its functions, not what the script does when run.
        names = runpy.run_path(file, run_name=CHILD_MAIN)
        first, _, rest = name.partition(".")
        found = names[first]
        found = operator.attrgetter(rest)(found) if rest else found
    function: Callable[..., Any] = getattr(found, "function", found)
    arguments = Arguments(function, ActiveJob)
    return lambda active: function(**arguments.read(active.data, active))


def _found(module: str, name: str, *file: str) -> Callable[..., Any]:
    try:
        return find(module, name, *file)
    except BaseException as exc:
        # Better reported with every job than lost with a process.
        return partial(_raise, exc)


def _raise(exc: BaseException, active: ActiveJob) -> NoReturn:
    raise exc


def _receive(stream: BinaryIO) -> bytes | None:
    """Return the next message; None when the worker is gone."""
    head = stream.read(protocol.LENGTH.size)
    if len(head) < protocol.LENGTH.size:
        return None
    (length,) = protocol.LENGTH.unpack(head)
    payload = stream.read(length)
    return payload if len(payload) == length else None


def _die_with_parent() -> None:
    # A terminal signals all processes of a group, a service manager all of a service;
    # the worker decides when we end.  Handlers, because ignored signals would also be
    # ignored by every program that a job starts.
    for number in SIGNALS:
        signal.signal(number, lambda number, frame: None)
    # Processes that a job forks get the default handlers.  Signals are blocked during
    # the fork: one that arrives before the new handlers are set would be lost.
    os.register_at_fork(
        before=partial(signal.pthread_sigmask, signal.SIG_BLOCK, SIGNALS),
        after_in_parent=partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, SIGNALS),
        after_in_child=_restore_handlers,
    )
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _restore_handlers() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


if __name__ == "__main__":
    main(sys.argv[1:])
