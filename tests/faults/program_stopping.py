"""
A worker as users write it, to be stopped: ``python -m tests.faults.program_stopping``.

Arguments: how long its jobs may go on when it is to stop, the URL, the prefix, and
a file to which every run of every kind adds a line as it begins and as it ends.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.synchronize import Event
from pathlib import Path

from kue import Kue, current_job
from tests.faults.program import say
from tests.support.leases import PATIENT_LEASE_SECONDS

#: How many jobs of each kind run at once.
SLOTS = {"coroutine": 10, "thread": 5, "child": 2}
#: How a job says that its handler never ends, that it cannot be interrupted either, or
#: that it is to end processes of its own.
FOR_EVER, DEAF, POOL = "forever", "deaf", "pool"

# In child processes there is neither a URL nor a need for one.
_url, _prefix = sys.argv[2:4] if __name__ == "__main__" else ("memory://", "kue")
q = Kue(_url, prefix=_prefix, lease=PATIENT_LEASE_SECONDS)


def note(path: str, *words: object) -> None:
    """Add a line in one go, so that none of many processes breaks another's."""
    with Path(path).open("ab", buffering=0) as file:
        file.write((" ".join(map(str, words)) + "\n").encode())


@q.task(concurrency=SLOTS["coroutine"], attempts=1)
async def coroutine(path: str, seconds: float = 0, how: str = "") -> str:
    note(path, "began", current_job().id, os.getpid())
    await (asyncio.Event().wait() if how else asyncio.sleep(seconds))
    note(path, "ended", current_job().id, os.getpid())
    return "coroutine"


@q.task(concurrency=SLOTS["thread"], attempts=1)
def thread(path: str, seconds: float = 0, how: str = "") -> str:
    note(path, "began", current_job().id, os.getpid())
    _sleep(seconds, how)
    note(path, "ended", current_job().id, os.getpid())
    return "thread"


@q.task(concurrency=SLOTS["child"], attempts=1, execution="process")
def child(path: str, seconds: float = 0, how: str = "") -> str:
    note(path, "began", current_job().id, os.getpid())
    _sleep(seconds, how)
    note(path, "ended", current_job().id, os.getpid())
    return "child"


def _sleep(seconds: float, how: str) -> None:
    if how == POOL:
        _fork_and_end()
    if how == DEAF:
        time.sleep(600)
    while how == FOR_EVER:
        time.sleep(0.01)
    time.sleep(seconds)


def _fork_and_end() -> None:
    context = multiprocessing.get_context("fork")
    is_there = context.Event()
    process = context.Process(target=_stay, args=[is_there])
    process.start()
    is_there.wait(20)
    process.terminate()
    process.join(20)
    process.kill()
    assert process.exitcode == -signal.SIGTERM


def _stay(is_there: Event) -> None:
    is_there.set()
    time.sleep(600)


async def main(grace: float) -> None:
    say("ready")
    async with q, asyncio.TaskGroup() as group:
        telling = group.create_task(tell())
        await q.run(grace=grace)
        # A worker that runs nothing may stop between two looks.
        telling.cancel()


async def tell() -> None:
    """Say when the worker has received the order to stop."""
    while not any(worker.is_stopping for worker in q.working):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    say("stopping")


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
