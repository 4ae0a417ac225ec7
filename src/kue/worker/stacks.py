"""
Stack traces of a worker: of each of its jobs, tasks and threads.

File names, function names and lines of code; never the values of variables.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any

from kue.store.values import MAX_STACKS
from kue.worker.current_job import CURRENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from contextvars import Context
    from types import FrameType

    from kue.worker.active_job import ActiveJob
    from kue.worker.active_run import ActiveRun


def stacks(
    loop: asyncio.AbstractEventLoop,
    runs: Iterable[ActiveRun],
    threads: Mapping[int, Context],
) -> str:
    """
    Return the stacks of all jobs, tasks and threads, up to about MAX_STACKS letters.

    *threads* are those that run handlers, with the context of each.  May be called from
    any thread, also while *loop* is blocked.
    """
    text, size = [], 0
    for part in _parts(loop, list(runs), threads):
        text.append(part)
        size += len(part)
        if size > MAX_STACKS:
            break
    return "\n".join(text)


def _parts(
    loop: asyncio.AbstractEventLoop,
    runs: list[ActiveRun],
    threads: Mapping[int, Context],
) -> Iterator[str]:
    tasks = asyncio.all_tasks(loop)
    job_of = {run.task: run for run in runs if run.task is not None}
    # Tasks that run jobs first: they are what people look for.
    for task in sorted(tasks, key=lambda task: (task not in job_of, task.get_name())):
        run = job_of.get(task)
        whose = f"{_job(run)}, task" if run is not None else "task"
        yield f"{whose} {task.get_name()!r}:\n" + _shown(_awaited(task.get_coro()))
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        context = threads.get(ident)
        run_there = None if context is None else context.get(CURRENT)
        whose = "thread" if run_there is None else f"{_job(run_there)}, thread"
        name = names.get(ident, "?")
        yield f"{whose} {name!r} ({ident}):\n" + _shown(traceback.walk_stack(frame))


def _job(run: ActiveJob) -> str:
    return f"job {run.id} of type {run.type}, attempt {run.attempt}"


def _awaited(awaitable: Any) -> Iterator[tuple[FrameType, int]]:
    """Yield the frames of a suspended coroutine and of what it waits for."""
    while awaitable is not None:
        for kind in ("cr", "gi", "ag"):
            frame: FrameType | None = getattr(awaitable, f"{kind}_frame", None)
            if frame is not None:
                yield frame, frame.f_lineno
                rest = "gi_yieldfrom" if kind == "gi" else f"{kind}_await"
                awaitable = getattr(awaitable, rest, None)
                break
        else:
            return


def _shown(frames: Iterator[tuple[FrameType, int]]) -> str:
    return "".join(traceback.StackSummary.extract(frames).format())
