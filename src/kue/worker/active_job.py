"""Active job: the job as its handler sees it, with its progress and log."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from kue.model import retry_policy
from kue.model.job import UNKNOWN_ERROR, Failed
from kue.worker.progress_values import line as log_line
from kue.worker.progress_values import progress as progress_update

if TYPE_CHECKING:
    from kue.client.batch_handle import BatchHandle, Call
    from kue.model.job import Job
    from kue.model.payload import JSON
    from kue.store.values import LogLine, Progress
    from kue.worker.progress_values import ProgressReply


_NO_STORE = (
    "a job in a child process has no store to add jobs to; return what is to be added, "
    "and let the next job of a flow do it"
)


class ProgressSink(Protocol):
    """Takes progress and log lines of a job; from any thread, without waiting."""

    def send(self, active: ActiveJob, report: Progress | LogLine) -> ProgressReply: ...


class ActiveJob:
    """
    A job while it runs.

    Handlers read :attr:`data` and may report with :meth:`log` and :meth:`progress`,
    from coroutines, threads and child processes alike.  What they return becomes the
    job's result; what they raise, its error.
    """

    __slots__ = ("_clock", "_sink", "job", "lines", "partial")

    def __init__(self, job: Job, sink: ProgressSink) -> None:
        #: The job as it was claimed.
        self.job = job
        self._sink = sink
        self._clock = time.monotonic()
        #: Captured so far: whole lines, and the start of the next; see log_capture.py.
        self.lines = 0
        self.partial = ""

    def __repr__(self) -> str:
        return f"<ActiveJob {self.id} {self.type!r}, attempt {self.attempt}>"

    @property
    def id(self) -> int:
        return self.job.id

    @property
    def type(self) -> str:
        return self.job.type

    @property
    def data(self) -> JSON:
        return self.job.data

    @property
    def tags(self) -> tuple[str, ...]:
        return self.job.tags

    @property
    def attempt(self) -> int:
        """Which attempt this is; 1 for the first."""
        return self.job.attempts

    @property
    def max_attempts(self) -> int:
        """How often it may be tried; 0 for no limit."""
        return self.job.max_attempts

    @property
    def is_last_attempt(self) -> bool:
        """Whether the job fails permanently if this attempt raises an error now."""
        ending = retry_policy.after_error(self.job, UNKNOWN_ERROR, self.now_ms)
        return isinstance(ending, Failed)

    @property
    def fence(self) -> int:
        """
        The fencing token: a number that grows with every run ever started.

        Pass it to a database that can reject lower ones, and a run that outlived its
        lease cannot overwrite what its successor wrote.
        """
        return self.job.fence

    @property
    def now_ms(self) -> int:
        """The store's clock, advanced by our own since the claim; Unix ms."""
        elapsed = int((time.monotonic() - self._clock) * 1000)
        return (self.job.started_at or 0) + elapsed

    @property
    def should_stop(self) -> bool:
        """
        Whether the run was interrupted: cancelled, timed out, lost, worker stopping.

        Coroutines are cancelled and threads interrupted as soon as they run Python
        code; this is for handlers that prefer to check by themselves.
        """
        return False

    @property
    def batch(self) -> BatchHandle | None:
        """
        The batch that it belongs to, to be added to; None if there is none.

        Raises:
            RuntimeError: It runs in a child process, which has no store.
        """
        raise RuntimeError(_NO_STORE)

    async def add(self, *calls: Call, holds_next: bool = False) -> list[int]:
        """
        Add jobs that belong to this one, and return their ids.

        They are of its flow, if it has one; it does not wait for them.  With
        *holds_next* the jobs of the flow that wait for this one wait for them, too.  A
        plain function, which cannot await, uses ``task.options(parent=job).delay(…)``.

        Raises:
            RuntimeError: It runs in a child process, which has no store.
        """
        raise RuntimeError(_NO_STORE)

    def log(self, text: object, level: str = "info") -> ProgressReply:
        """
        Add a line to the job's log; if the store is unavailable, the line is dropped.

        The line is in flight when this returns.  ``await job.log(…)`` waits until it
        was written.
        """
        return self._sink.send(self, log_line(text, level, attempt=self.attempt))

    def progress(
        self, done: float, total: float = 100, data: JSON = None
    ) -> ProgressReply:
        """
        Report the progress of the run, which also restarts its ttl.

        Only the newest unwritten report is kept, so it may be called as often as you
        like.  ``await job.progress(…)`` waits until it was written, and raises:

        Raises:
            LeaseLost: The job was reclaimed; stop, the outcome of this run is dropped.
            JobNotFound: It was removed.
        """
        update = progress_update(self.id, done, total, data, token=self.job.token)
        return self._sink.send(self, update)

    def lose(self) -> None:
        """Note that the job was reclaimed or removed."""
