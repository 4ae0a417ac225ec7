"""The queue that supervised workers of the tests work on; it says what happens."""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kue import Kue
from kue.store.sqlite import fork_lock
from kue.worker.active_job import ActiveJob

#: Calls of this hold the interpreter, as a regular expression that runs wild does.
held = ctypes.PyDLL(None)

q = Kue()


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def is_there(path: str) -> bool:
    return not path or Path(path).exists()


@contextmanager
def outside_sqlite() -> Iterator[None]:
    """
    Have no thread of this process be in the middle of a write, as before a fork.

    It could not go on while the interpreter is held, would keep the lock of the file,
    and nobody else could write: neither take a job over nor renew a lease.
    """
    fork_lock._before_fork()
    try:
        yield
    finally:
        fork_lock._after_fork_in_parent()


@q.process("nap", 20)
async def nap(job: ActiveJob) -> int:
    """Sleep for some time, or until there is a file."""
    say("started", job.id, os.getpid())
    await asyncio.sleep(job.data["seconds"])
    while not is_there(job.data["until"]):  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.05)
    say("returned", job.id, os.getpid())
    return os.getpid()


@q.process("spawn", 1)
async def spawn(job: ActiveJob) -> None:
    program = await asyncio.create_subprocess_exec("sleep", "600")
    say("spawned", program.pid, os.getpid())
    await program.wait()


@q.process("fork", 1)
async def fork(job: ActiveJob) -> None:
    copy = os.fork()
    if not copy:
        # What the copy of a handler does goes on without its worker.
        held.sleep(600)
        os._exit(0)
    other = multiprocessing.get_context("fork").Process(target=time.sleep, args=[600])
    other.start()
    say("forked", copy, other.pid, os.getpid())


@q.process("hold", 1)
async def hold(job: ActiveJob) -> None:
    """Hold the interpreter for some time, or until someone writes to a pipe."""
    say("started", job.id, os.getpid())
    left = job.data["seconds"]
    with outside_sqlite():
        while left:
            # A signal cuts it short.
            left = held.sleep(left)
        if until := job.data["until"]:
            held.open(until.encode(), os.O_RDONLY)
    say("returned", job.id, os.getpid())


@q.process("thread", 1)
async def thread(job: ActiveJob) -> None:
    say("started", job.id, os.getpid())
    await asyncio.to_thread(time.sleep, job.data["seconds"])
