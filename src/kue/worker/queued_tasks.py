"""
Tasks whose jobs wait in a queue of another name, as one lane runs them.

Such a job names its task (`Spec.task`).  A task runs as many of them at once as it
would in its own queue, if the queue itself has room for more.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple

from kue.model.job import Released
from kue.worker.executor import RunEnded

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from kue.model.payload import JSON
    from kue.worker.active_run import ActiveRun

    RunHandler = Callable[[ActiveRun], Awaitable[JSON]]

logger = logging.getLogger(__name__)

#: When a job is tried again whose task this worker does not know, ms: another worker
#: may, or this one after its next deployment.
UNKNOWN_DELAY_MS = 30_000


class QueuedTask(NamedTuple):
    """The handler of a task, and how many of its jobs run at once."""

    handler: RunHandler
    slots: int


class QueuedTasks:
    """What one lane knows of tasks: handlers, and whose turn it is."""

    def __init__(self, tasks: Mapping[str, QueuedTask], slots: int) -> None:
        self._tasks = tasks
        self._slots = slots
        self._turns: dict[str, asyncio.Semaphore] = {}

    def handler(self, name: str) -> RunHandler:
        """Return the handler of the task *name*."""
        task = self._tasks.get(name)
        return release_unknown if task is None else task.handler

    def turn(self, name: str) -> asyncio.Semaphore | None:
        """Return what a run of the task waits for; None where there is always room."""
        task = self._tasks.get(name)
        if task is None or task.slots >= self._slots:
            return None
        return self._turns.setdefault(name, asyncio.Semaphore(task.slots))


#: Queues and tasks that were logged, and how many are.
MAX_LOGGED = 1_000
_logged: set[tuple[str, str]] = set()


async def release_unknown(run: ActiveRun) -> JSON:
    """Release a job whose task has no handler here; no attempt is spent."""
    where = (run.job.queue, run.job.name)
    if where not in _logged and len(_logged) < MAX_LOGGED:
        _logged.add(where)
        logger.warning(
            "queue %r has jobs of task %r, which this worker does not know; they are "
            "released for another worker",
            *where,
        )
    reason = f"its worker does not know task {run.job.name!r}"
    raise RunEnded(Released(UNKNOWN_DELAY_MS, reason=reason))
