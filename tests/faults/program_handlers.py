"""
Handlers that misbehave, and a worker that has them.

``python -m tests.faults.program_handlers ROLE URL PREFIX NAME``: a worker with a short
lease; a handler of role "pill" takes it down, one of role "block" holds up its loop.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from kue import Kue
from kue.worker.active_job import ActiveJob
from tests.faults.program import say
from tests.support.leases import SHORT_LEASE_SECONDS

LEASE_SECONDS = SHORT_LEASE_SECONDS
#: Of the worker whose loop is held up: it is to keep it, on a busy machine too.
BLOCKED_LEASE_SECONDS = 5.0
BLOCKED_SECONDS = 1.5 * BLOCKED_LEASE_SECONDS
#: What the worker can run at once: the misbehaving handler and all of its neighbours.
NEIGHBOURS = 20


class Unprintable(Exception):
    """Raises when it is asked for its message, what it was given."""

    def __init__(self, instead: BaseException) -> None:
        super().__init__()
        self.instead = instead

    def __str__(self) -> str:
        raise self.instead

    __repr__ = __str__


class Own(BaseException):
    """Not an `Exception`, and unknown to everybody."""


def _caused() -> BaseException:
    error = ValueError("it is its own cause")
    error.__cause__ = error
    return error


def _grouped() -> BaseException:
    return BaseExceptionGroup("many", [KeyboardInterrupt(), ValueError("one")])


RAISED: dict[str, Callable[[], BaseException]] = {
    "SystemExit": lambda: SystemExit(0),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "CancelledError": asyncio.CancelledError,
    "StopAsyncIteration": StopAsyncIteration,
    "Own": Own,
    "BaseExceptionGroup": _grouped,
    "ValueError": _caused,
    "MemoryError": MemoryError,
    "RecursionError": RecursionError,
    "BlockingIOError": BlockingIOError,
    "EOFError": lambda: EOFError("not the end of ours"),
    "ConnectionResetError": lambda: ConnectionResetError("not of ours"),
    "TimeoutError": lambda: TimeoutError("not ours"),
    "UnicodeError": lambda: UnicodeError("\udcff\x00\ud800"),
    "LookupError": lambda: LookupError("x" * 10_000_000),
    "Unprintable": lambda: Unprintable(RuntimeError("do not ask")),
}
#: By what they raise when they are asked for their message.
UNSPEAKABLE: dict[str, Callable[[], BaseException]] = {
    "exit": lambda: Unprintable(SystemExit(0)),
    "interrupt": lambda: Unprintable(KeyboardInterrupt()),
    "own": lambda: Unprintable(Own()),
}
ALL = RAISED | UNSPEAKABLE

RETURNED: dict[str, Callable[[], Any]] = {
    "huge": lambda: "x" * 100_000_000,
    "object": object,
    "infinity": lambda: {"a": [float("inf")]},
    "surrogate": lambda: "\udcff",
    "deep": lambda: _nested(100_000),
    "endless": lambda: _endless(),
}


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def _endless() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def in_thread(what: str) -> Any:
    if what in ALL:
        raise ALL[what]()
    return RETURNED[what]()


def in_child(what: str) -> Any:
    return in_thread(what)


async def in_loop(what: str) -> Any:
    return in_thread(what)


DEATHS: dict[str, Callable[[], object]] = {
    "exit": lambda: os._exit(7),
    "segfault": lambda: ctypes.string_at(0),
}


async def main(role: str, url: str, prefix: str, name: str) -> None:
    lease = BLOCKED_LEASE_SECONDS if role == "block" else LEASE_SECONDS
    queue = Kue(url, prefix=prefix, lease=lease)

    @queue.process("neighbour", NEIGHBOURS)
    async def neighbour(job: ActiveJob) -> None:
        say("started", job.id)
        await asyncio.sleep(job.data["seconds"])

    @queue.process("pill", 1)
    async def pill(job: ActiveJob) -> None:
        say("started", job.id)
        DEATHS[name]()

    @queue.process("block", 1)
    async def block(job: ActiveJob) -> None:
        say("blocked", job.id)
        time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251 - what must not be done

    say("ready")
    async with queue:
        await queue.run(types=["neighbour", role], grace=5)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
