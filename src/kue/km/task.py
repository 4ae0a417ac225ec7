"""Tasks of KMQueue, and what handles them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

if TYPE_CHECKING:
    from kue.km.manager import KMQueueManager
    from kue.model.job import Job
    from kue.model.payload import JSON

NORMAL, RETRY = "normal", "retry"


class TaskStatus(msgspec.Struct, frozen=True):
    """How often a task was tried, and when; times are the store's, Unix ms."""

    state: str = NORMAL
    gen_timestamp: int = 0
    exc_timestamp: int = 0
    retry: int = 0


class TaskHandler(Protocol):
    """Handles a task: created without arguments for each."""

    def handle(self, data: Any, *params: Any) -> object: ...


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A task as the data of its job, which has all of this and nothing else."""

    id: str
    type: str
    data: Any
    unique: bool


class KMTask:
    """
    A task: to be pushed, or as it was popped.

    Args:
        uid: Distinguishes it from others; None for a random one.
        is_unique: Whether only one task with this uid may be in the queue.
        type: For your own use, to choose a handler.
        data: Anything that has a JSON form.
    """

    __slots__ = ("data", "id", "is_unique", "job", "queue", "type")

    def __init__(
        self,
        queue: str,
        uid: str | None = None,
        is_unique: bool = False,
        type: str = "",
        data: JSON = None,
        *,
        job: Job | None = None,
    ) -> None:
        for value, what in ((uid or "", "uid"), (type, "type")):
            if not isinstance(value, str):
                raise TypeError(f"the {what} of a task is text, not {value!r}")
        self.queue = queue
        self.id = uid or str(uuid.uuid4())
        self.is_unique = is_unique
        self.type = type
        self.data = data
        #: The job that it is in the store; None before it was pushed.
        self.job = job

    def __repr__(self) -> str:
        return f"<Task {self.id!r} of {self.queue!r}, {self.status.state}>"

    @classmethod
    def of(cls, job: Job) -> KMTask:
        """
        Return the task that *job* is.

        A job that was added without this module is a task as well, with its data.
        """
        try:
            stored = msgspec.convert(job.data, Stored)
        except msgspec.ValidationError:
            stored = Stored(str(job.id), "", job.data, False)
        return cls(
            job.type, stored.id, stored.unique, stored.type, stored.data, job=job
        )

    def stored(self) -> JSON:
        """Return it as the data of a job."""
        return msgspec.structs.asdict(
            Stored(self.id, self.type, self.data, self.is_unique)
        )

    @property
    def status(self) -> TaskStatus:
        """How often it was tried."""
        job = self.job
        if job is None:
            return TaskStatus()
        state = RETRY if job.stalls else NORMAL
        return TaskStatus(state, job.created_at, job.started_at or 0, job.stalls)

    def do_task(
        self, manager: KMQueueManager, handler: type[TaskHandler], *params: Any
    ) -> None:
        """
        Handle it with a new *handler*, and finish it.

        What the handler raises is logged, and decides as `Builder.set_on_error` says:
        by default the task fails, and its `Pipeline` gets it.
        """
        manager.get_task_queue(self.queue).do_task(self, handler, *params)
