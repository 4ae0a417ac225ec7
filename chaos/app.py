"""
The queue under test, and its handlers.

A job does what its `Chore` specifies: first it misbehaves a given number of times, then
it has its effect, once per run, and returns its fencing token.

==========  ========================================================================
return      sleeps
tell        writes to its log and reports progress, then sleeps
ignore      sleeps, and ignores cancellation
block       blocks the event loop without using the processor
spin        uses the processor, and blocks the interpreter for most of the time
raise       raises an exception
escape      raises SystemExit
release     asks to be run later
exit        ends its process at once, with all jobs that run there
==========  ========================================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

import kue
from chaos.facts import Came, Died, Started
from chaos.journal import Journal, now_ms
from chaos.leash import follow
from chaos.plan import APART, Chore
from chaos.sink import Effect, Sink
from kue import ActiveJob

FOLDER = Path(os.environ["CHAOS_FOLDER"])
#: Additions per step while spinning; some 20 ms in which no other thread runs.
SPIN = 1_000_000

follow(int(os.environ["CHAOS_HARNESS"]))
q = kue.Kue()


class Planned(Exception):
    """Raised by a job as planned."""


@q.on_startup
def record_start() -> None:
    journal(os.getpid(), "came").write(Came(os.getpid(), now_ms()))


@q.process("quick", 12)
async def quick(job: ActiveJob) -> int:
    return await perform(job)


@q.process("slow", 16)
async def slow(job: ActiveJob) -> int:
    return await perform(job)


@q.process("rough", 3)
async def rough(job: ActiveJob) -> int:
    return await perform(job)


@q.process_blocking("threaded", 3)
def threaded(job: ActiveJob) -> int:
    return perform_blocking(job)


@q.task(name=APART, execution="process", concurrency=2)
def apart(job: ActiveJob, **chore: Any) -> int:
    return perform_blocking(job)


@q.process("probe", 1)
async def probe(job: ActiveJob) -> int:
    return await perform(job)


async def perform(job: ActiveJob) -> int:
    """Do what the job's chore specifies, on the event loop."""
    chore = msgspec.convert(job.data, Chore)
    record_run(job, chore)
    if chore.does in ("block", "spin"):
        block(chore)
    elif chore.does == "tell":
        await report(job, chore)
    elif chore.does == "ignore":
        await ignore(chore)
    elif chore.does != "release":
        await asyncio.sleep(chore.seconds)
    misbehave(job, chore)
    return have_effect(job, chore)


def perform_blocking(job: ActiveJob) -> int:
    """Do what the job's chore specifies, where blocking is allowed."""
    chore = msgspec.convert(job.data, Chore)
    record_run(job, chore)
    if chore.does == "spin":
        block(chore)
    else:
        time.sleep(chore.seconds)
    misbehave(job, chore)
    return have_effect(job, chore)


async def report(job: ActiveJob, chore: Chore) -> None:
    for percent in (10, 90):
        await job.log(f"{percent} % of {chore.key}")
        await job.progress(percent)
        await asyncio.sleep(chore.seconds)


async def ignore(chore: Chore) -> None:
    end = time.monotonic() + chore.seconds
    while (left := end - time.monotonic()) > 0:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(left)


def block(chore: Chore) -> None:
    if chore.does == "block":
        time.sleep(chore.seconds)
        return
    end = time.monotonic() + chore.seconds
    while time.monotonic() < end:
        sum(range(SPIN))


def misbehave(job: ActiveJob, chore: Chore) -> None:
    """Make the run fail, if it is one of those that should."""
    if chore.does in ("raise", "escape") and job.attempt <= chore.times:
        raise Planned(chore.key) if chore.does == "raise" else SystemExit(chore.key)
    releases = [past for past in job.job.history if past.outcome == "released"]
    if chore.does == "release" and len(releases) < chore.times:
        raise kue.Release(chore.seconds)
    if chore.does == "exit" and job.job.stalls + job.attempt <= chore.times:
        journal(os.getpid(), "died").write(Died(os.getpid(), now_ms()))
        os._exit(1)


def record_run(job: ActiveJob, chore: Chore) -> None:
    """Record that the handler was called."""
    pid = os.getpid()
    journal(pid, "started").write(
        Started(
            id=job.id,
            key=chore.key,
            type=job.type,
            fence=job.fence,
            attempt=job.attempt,
            started_at=job.job.started_at or 0,
            pid=pid,
            parent=os.getppid(),
            once=job.job.once,
        )
    )


def have_effect(job: ActiveJob, chore: Chore) -> int:
    """Do what cannot be undone; return the fencing token of the run."""
    effect = Effect(job.id, job.fence, job.attempt, os.getpid(), now_ms(), chore.key)
    Sink(FOLDER).take(effect)
    return job.fence


@cache
def journal(pid: int, name: str) -> Journal:
    """Return this process's journal; a forked child has its own."""
    return Journal(FOLDER / f"{name}-{pid}.jsonl")
