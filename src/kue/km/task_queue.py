"""A queue of KMQueue: push, pop and finish tasks."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from kue.km.queue_names import SAFE
from kue.km.task import KMTask, TaskHandler
from kue.model import retry_policy
from kue.model.duration import Duration, milliseconds
from kue.model.job import MIN_PRIORITY, Completed, Ending, Failed
from kue.worker.executor import error_with_stack

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.km.manager import KMQueueManager
    from kue.model.job import Job

logger = logging.getLogger(__name__)


class TaskQueue:
    """One queue of a manager; `KMQueueManager.get_task_queue` returns it."""

    def __init__(self, manager: KMQueueManager, name: str, mode: str) -> None:
        self._manager = manager
        self.name = name
        #: "default" (a popped task may be lost) or "safe" (until it is finished).
        self.mode = mode

    def __repr__(self) -> str:
        return f"<TaskQueue {self.name!r}, {self.mode}>"

    @property
    def is_safe(self) -> bool:
        return self.mode == SAFE

    def push_task(self, task: KMTask) -> KMTask | None:
        """
        Add a task at the end of the queue.

        Returns None if it is unique, and another with its uid has not been finished.

        Raises:
            BadPayload: Its data is not JSON, or too much of it.
            ValueError: It is the task of another queue.
        """
        return self._push(task, {})

    def push_task_to_header(self, task: KMTask) -> KMTask | None:
        """Add a task before all that were pushed to the end; else as `push_task`."""
        return self._push(task, {"priority": MIN_PRIORITY})

    def pop_task(self, timeout: Duration | None = None) -> KMTask | None:
        """
        Return the next task, and wait for one; None if *timeout* ended before.

        A task of a safe queue is leased to this process until `finish_task`; if the
        process dies, another one gets the task.  A task of a default queue is gone.
        """
        seconds = None
        if timeout is not None:
            seconds = milliseconds(timeout, field="timeout") / 1000
        job = self._manager.call(self._pop, seconds)
        return None if job is None else KMTask.of(job)

    def finish_task(self, task: KMTask) -> bool:
        """
        Finish a popped task; return False if it was given to another consumer before.

        In a default queue there is nothing to finish.

        Raises:
            ValueError: It was not popped.
        """
        return self._end(task, Completed())

    def fail_task(self, task: KMTask, error: BaseException) -> bool:
        """End a popped task as failed for good: its `Pipeline` gets it."""
        return self._end(task, Failed(error_with_stack(error)))

    def do_task(self, task: KMTask, handler: type[TaskHandler], *params: Any) -> None:
        """Handle a popped task; see `Task.do_task`."""
        try:
            handler().handle(task.data, *params)
        except Exception as exc:
            logger.exception("task %s of queue %s raised", task.id, self.name)
            self._end(task, self._after_error(task, exc))
        else:
            self.finish_task(task)

    def _after_error(self, task: KMTask, exc: Exception) -> Ending:
        """Return how a task ends whose handler raised: that is decided here alone."""
        policy = self._manager.on_error
        if policy == "finish" or task.job is None:
            return Completed()
        if policy == "fail":
            return Failed(error_with_stack(exc))
        return retry_policy.after_error(
            task.job, error_with_stack(exc), task.status.exc_timestamp
        )

    def _end(self, task: KMTask, ending: Ending) -> bool:
        if task.job is None:
            raise ValueError(f"{task!r} was pushed, not popped, and cannot be finished")
        if not self.is_safe:
            return True
        return self._manager.call(self._finish, task.job, ending)

    def _push(self, task: KMTask, options: dict[str, Any]) -> KMTask | None:
        if task.queue != self.name:
            raise ValueError(f"{task!r} is not a task of queue {self.name!r}")
        options |= self._manager.job_options(self.is_safe)
        if task.is_unique:
            options["unique"] = task.id
        return task if self._manager.call(self._add, task, options) else None

    async def _add(self, q: Kue, task: KMTask, options: dict[str, Any]) -> bool:
        handle = await q.enqueue(self.name, task.stored(), **options)
        return handle.is_new

    async def _pop(self, q: Kue, seconds: float | None) -> Job | None:
        popped = await self._manager.popped(q)
        job = await popped.pop(self.name, seconds)
        if job is not None and not self.is_safe:
            # At most once: from here on only the caller has it.
            await popped.finish(job, Completed())
        return job

    async def _finish(self, q: Kue, job: Job, ending: Ending) -> bool:
        return await (await self._manager.popped(q)).finish(job, ending)
