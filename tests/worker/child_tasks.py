"""Functions that child processes run in tests; they must be importable."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Generator
from pathlib import Path
from typing import Never

import kue


def double(n: int) -> int:
    return n * 2


async def triple(n: int) -> int:
    return n * 3


def pid() -> int:
    return os.getpid()


def environment() -> dict[str, str]:
    return dict(os.environ)


async def add_awaiting() -> None:
    async with kue.Kue() as q:
        await q.enqueue("email")


async def add_in_memory() -> None:
    async with kue.Kue("memory://") as q:
        await q.enqueue("email")


def add_blocking() -> None:
    kue.Kue().sync.enqueue("email")


def leave(code: int) -> Never:
    os._exit(code)


def die(number: int) -> None:
    os.kill(os.getpid(), number)
    signal.pause()


def raise_it(kind: str) -> Never:
    raise {
        "value": ValueError("oops"),
        "exit": SystemExit(3),
        "retry": kue.Retry("later", after=60),
        "release": kue.Release(60),
        "fail": kue.Fail("never"),
        "cancel": kue.Cancel("no need"),
        "skip": kue.Skip("done before"),
    }[kind]


def speak() -> str:
    job = kue.current_job()
    job.log("by hand", level="warning")
    logging.getLogger("app").error("by logging")
    print("by print")  # noqa: T201 - that is the point
    job.progress(1, 4, {"page": 1})
    return "said"


def beget(path: str) -> None:
    """Start a process that would outlive us, and never return."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(path).write_text(f"{os.getpid()} {child.pid}")
    while True:
        time.sleep(1)


def outstay(tidies: bool) -> str:
    """Run until a soft timeout; return then, or let it end the run."""
    try:
        while True:
            time.sleep(0.01)
    except kue.SoftTimeout:
        if not tidies:
            raise
        return "tidied"


def too_much() -> str:
    return "x" * 1_000_000


class ProviderDown(Exception):
    """Not the fault of the job."""


class Timeout503(ProviderDown):
    """One of them."""


def call_provider(kind: str) -> Never:
    raise {"down": Timeout503("503"), "skip": kue.Skip("done before")}[kind]


def steps(path: str, job: kue.ActiveJob) -> list[object]:
    charged = job.step("charge", charge, path)
    job.sleep("5ms")
    answer = job.wait_for("approved")
    late = job.wait_for("paid", timeout="5ms", default="late")
    if job.attempt == 1:
        raise ConnectionError
    return [charged, answer, late]


async def async_steps(path: str, job: kue.ActiveJob) -> list[object]:
    charged = await job.step("charge", charge, path)
    await job.sleep("5ms")
    answer = await job.wait_for("approved")
    late = await job.wait_for("paid", timeout="5ms", default="late")
    if job.attempt == 1:
        raise ConnectionError
    return [charged, answer, late]


def charge(path: str) -> str:
    with Path(path).open("a") as file:
        file.write("charge\n")
    return "charged"


def spell(word: str) -> Generator[str, None, int]:
    yield from word
    return len(word)


async def spell_async(word: str) -> AsyncIterator[str]:
    for letter in word:
        yield letter


def send_words(job: kue.ActiveJob, number: int) -> None:
    for at in range(number):
        job.send({"word": at})
