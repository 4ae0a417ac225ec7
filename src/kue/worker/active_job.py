"""The job a handler is given: what to do, and a way to give signs of life."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from kue.worker import progress as signs

if TYPE_CHECKING:
    from kue.model.job import Job
    from kue.model.payload import JSON
    from kue.store.values import LogLine, Progress
    from kue.worker.progress_reply import ProgressReply


class ProgressSink(Protocol):
    """Carries what a job says of itself; from any thread, without waiting."""

    def progress(self, active: ActiveJob, update: Progress) -> ProgressReply: ...

    def line(self, active: ActiveJob, line: LogLine) -> ProgressReply: ...


class ActiveJob:
    """
    A job while it runs.

    Handlers read :attr:`data` and may tell of themselves with :meth:`log` and
    :meth:`progress`, from coroutines, threads and child processes alike.  What they
    return becomes the job's result; what they raise, its error.
    """

    __slots__ = ("_clock", "_teller", "job", "lines", "partial")

    def __init__(self, job: Job, teller: ProgressSink) -> None:
        #: The job as it was claimed.
        self.job = job
        self._teller = teller
        self._clock = time.monotonic()
        #: Captured so far: whole lines, and the beginning of the next; see capture.py.
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
        return self.job.max_attempts

    @property
    def is_last_attempt(self) -> bool:
        """Whether the job fails for good if this attempt does."""
        return self.attempt >= self.max_attempts

    @property
    def fence(self) -> int:
        """
        A number that grows with every run ever started.

        Hand it to a database that can refuse lower ones, and a run that outlived its
        lease cannot overwrite what its successor wrote.
        """
        return self.job.fence

    @property
    def now_ms(self) -> int:
        """The store's clock, by our own since the run was claimed; Unix ms."""
        elapsed = int((time.monotonic() - self._clock) * 1000)
        return (self.job.started_at or 0) + elapsed

    @property
    def should_stop(self) -> bool:
        """
        Whether the run was told to end: cancelled, timed out, lost, worker stopping.

        Coroutines are cancelled and threads interrupted as soon as they run Python
        code; this is for those that want to look for themselves.
        """
        return False

    def log(self, text: object, level: str = "info") -> ProgressReply:
        """
        Add a line to the job's log; a store that is away costs the line alone.

        The line is on its way when this returns.  ``await job.log(…)`` waits until it
        was written.
        """
        line = signs.line(text, level, attempt=self.attempt)
        return self._teller.line(self, line)

    def progress(
        self, done: float, total: float = 100, data: JSON = None
    ) -> ProgressReply:
        """
        Say how far the run is, which also starts its ttl anew.

        Only the newest of what was not yet written is kept, so it may be said as often
        as one likes.  ``await job.progress(…)`` waits until it was written, and raises:

        Raises:
            LeaseLost: The job was handed on; stop, whatever this run does is dropped.
            JobNotFound: It was removed.
        """
        update = signs.progress(self.id, done, total, data, token=self.job.token)
        return self._teller.progress(self, update)

    def lose(self) -> None:
        """Take note that the job was handed on, or removed."""
