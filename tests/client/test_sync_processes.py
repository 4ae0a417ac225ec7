"""`q.sync` in whole programs: forks, signals, and the end of the interpreter."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

import pytest

from kue import Kue, State
from tests.support.engines import Engine
from tests.support.patience import PATIENCE_SECONDS

#: What every program begins with: a queue, and a way to talk.
PRELUDE = """
import asyncio, multiprocessing, os, sys, threading, time
from kue import Kue, KueError

q = Kue(sys.argv[1], prefix=sys.argv[2], budget="20s")

def say(*words):
    print(*words, flush=True)

def until(is_so):
    while not is_so():
        time.sleep(0.002)
"""
FORK = """
parents = q.sync.enqueue("email", "of the parent")
q.sync.on("job_enqueue", lambda event: None)
pid = os.fork()
if pid == 0:
    childs = q.sync.enqueue("email", "of the child")
    say(childs.refresh().data, "and", parents.refresh().data)
    sys.exit()
_, status = os.waitpid(pid, 0)
say("child left with", os.waitstatus_to_exitcode(status))
say(parents.refresh().data, q.sync.inactive_count())
"""
POOL = """
def add(number):
    return q.sync.enqueue("email", number).refresh().data

say(add(-1))
with multiprocessing.get_context("fork").Pool(2) as pool:
    say(sum(pool.map(add, range(20))), q.sync.inactive_count())
"""
FORK_MEMORY = """
q.sync.enqueue("email")
pid = os.fork()
if pid == 0:
    try:
        q.sync.enqueue("email")
    except KueError as error:
        say(type(error).__name__, error)
    sys.exit()
os.waitpid(pid, 0)
"""
#: Exits while a thread's job is on its way, which the test keeps from arriving.
EXIT = """
async def adds(_):
    return [t for t in asyncio.all_tasks() if "Kue.enqueue" in repr(t.get_coro())]

q.sync.types()
say("ready")
sys.stdin.readline()
threading.Thread(target=q.sync.enqueue, args=("email", "late"), daemon=True).start()
until(lambda: q.sync.call(adds))
say("exiting")
"""
EXIT_IDLE = """
q.sync.on("job_complete", print)
q.sync.enqueue("email")
events = q.sync.events()
say("exiting")
"""
INTERRUPT = """
job = q.sync.enqueue("email")

def tell():
    until(lambda: job.job is not None)
    say("waiting")

async def tasks(_):
    return [t for t in asyncio.all_tasks() if "JobHandle.result" in repr(t.get_coro())]

threading.Thread(target=tell).start()
try:
    job.result()
except KeyboardInterrupt:
    until(lambda: not q.sync.call(tasks))
    say("interrupted", q.sync.inactive_count())
"""
RUN = """
@q.process("email", 2)
async def send(job):
    say("started")
    if job.data == "slow":
        await asyncio.Event().wait()
    return "sent"

say("running")
q.sync.run(grace=20)
say("stopped")
"""


class Program:
    """A program that runs, and what it says."""

    def __init__(self, text: str, place: Engine) -> None:
        settings = place.settings
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + text, settings.url, settings.prefix],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def line(self) -> str:
        """Return what it says next."""
        return cast("IO[str]", self.process.stdout).readline().rstrip("\n")

    def go_on(self) -> None:
        """Let it read a line."""
        stdin = cast("IO[str]", self.process.stdin)
        stdin.write("\n")
        stdin.flush()

    def end(self) -> str:
        """Return what it still says; it must end well, and without a complaint."""
        said, complaints = self.process.communicate(timeout=PATIENCE_SECONDS)
        assert complaints == ""
        assert self.process.returncode == 0
        return said


@contextmanager
def running(text: str, place: Engine) -> Iterator[Program]:
    program = Program(text, place)
    try:
        yield program
    finally:
        # With its children, if it has any left: they hold its pipes open.
        with suppress(ProcessLookupError):
            os.killpg(program.process.pid, signal.SIGKILL)
        program.process.communicate()


shared_places = pytest.mark.parametrize("place", ["sqlite", "redis"], indirect=True)
in_memory = pytest.mark.parametrize("place", ["memory"], indirect=True)
in_a_file = pytest.mark.parametrize("place", ["sqlite"], indirect=True)


# -- forks -------------------------------------------------------------------


@shared_places
def test_a_child_makes_a_portal_of_its_own(place: Engine) -> None:
    with running(FORK, place) as program:
        assert program.end().splitlines() == [
            "of the child and of the parent",
            "child left with 0",
            "of the parent 2",
        ]


@shared_places
def test_a_pool_of_forked_processes_adds_jobs(place: Engine) -> None:
    with running(POOL, place) as program:
        assert program.end().splitlines() == ["-1", "190 21"]


@in_memory
def test_a_store_in_memory_is_not_taken_along_into_a_child(place: Engine) -> None:
    with running(FORK_MEMORY, place) as program:
        assert program.end().startswith("StoreRefused memory:// was opened by process")


# -- the end -----------------------------------------------------------------


@in_a_file
def test_a_job_on_its_way_arrives_before_the_program_ends(
    place: Engine, tmp_path: Path
) -> None:
    with running(EXIT, place) as program:
        assert program.line() == "ready"
        blocker = sqlite3.connect(tmp_path / "kue.db", isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        program.go_on()
        assert program.line() == "exiting"

        blocker.execute("COMMIT")
        blocker.close()

        program.end()
    with Kue(place.settings.url).sync as q:
        assert [job.data for job in q.range(0, -1)] == ["late"]


def test_a_program_that_closes_nothing_ends_quietly(place: Engine) -> None:
    with running(EXIT_IDLE, place) as program:
        assert program.end() == "exiting\n"


# -- signals -----------------------------------------------------------------


def test_an_interrupt_cancels_the_call(place: Engine) -> None:
    with running(INTERRUPT, place) as program:
        assert program.line() == "waiting"

        os.kill(program.process.pid, signal.SIGINT)

        assert program.end() == "interrupted 1\n"


@shared_places
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_script_that_works(
    place: Engine, plain_q: Kue, number: int
) -> None:
    job = plain_q.sync.enqueue("email", "quick")
    with running(RUN, place) as program:
        assert [program.line(), program.line()] == ["running", "started"]
        assert job.result(timeout=PATIENCE_SECONDS) == "sent"

        os.kill(program.process.pid, number)

        assert program.end() == "stopped\n"


@shared_places
def test_a_second_signal_hands_jobs_back_at_once(place: Engine, plain_q: Kue) -> None:
    job = plain_q.sync.enqueue("email", "slow")
    with running(RUN, place) as program:
        assert [program.line(), program.line()] == ["running", "started"]

        os.kill(program.process.pid, signal.SIGTERM)
        os.kill(program.process.pid, signal.SIGINT)

        assert program.end() == "stopped\n"
    read = job.refresh()
    assert (read.state, read.attempts) == (State.WAITING, 0)
