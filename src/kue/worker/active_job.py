"""Active job: the job as its handler sees it, with its progress and log."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, overload

from kue.model import retry_policy
from kue.model.job import UNKNOWN_ERROR, Failed
from kue.store.codec import chunk_of
from kue.worker.durable_steps import NO_DEFAULT, DurableSteps, check_function
from kue.worker.progress_values import line as log_line
from kue.worker.progress_values import progress as progress_update

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from msgspec import Raw

    from kue.client.batch_handle import BatchHandle, Call
    from kue.model.duration import Duration
    from kue.model.job import Job
    from kue.model.payload import JSON
    from kue.store.values import LogLine, Progress
    from kue.worker.chunk_sender import Outbox
    from kue.worker.durable_steps import StepStore
    from kue.worker.progress_values import ProgressReply

P = ParamSpec("P")
T = TypeVar("T")


_NO_STORE = (
    "a job in a child process has no store to add jobs to; return what is to be added, "
    "and let the next job of a flow do it"
)


class ProgressSink(Protocol):
    """Takes what a job reports, from any thread; only for chunks it may wait."""

    def send(self, active: ActiveJob, report: Progress | LogLine) -> ProgressReply: ...
    def send_chunk(self, active: ActiveJob, chunk: Raw) -> ProgressReply: ...


class ActiveJob:
    """
    A job while it runs.

    Handlers read :attr:`data` and may report with :meth:`log`, :meth:`progress` and
    :meth:`send`, from coroutines, threads and child processes alike.  What they return
    becomes the job's result; what they raise, its error.
    """

    __slots__ = (
        "_clock",
        "_sink",
        "_steps",
        "job",
        "lines",
        "outbox",
        "partial",
        "reached",
    )

    def __init__(self, job: Job, sink: ProgressSink) -> None:
        #: The job as it was claimed.
        self.job = job
        self._sink = sink
        self._clock = time.monotonic()
        self._steps: DurableSteps | None = None
        #: Captured so far: whole lines, and the start of the next; see log_capture.py.
        self.lines = 0
        self.partial = ""
        #: The last progress that it reported.
        self.reached: Progress | None = None
        #: What it has sent to its stream; None if it has sent nothing.
        self.outbox: Outbox | None = None

    def __repr__(self) -> str:
        return f"<ActiveJob {self.id} {self.type!r}, attempt {self.attempt}>"

    @property
    def id(self) -> int:
        return self.job.id

    @property
    def type(self) -> str:
        return self.job.type

    @property
    def name(self) -> str:
        """The name of its task."""
        return self.job.name

    @property
    def queue(self) -> str:
        """Where it waited: the name of its task, unless it was added with queue=."""
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

    def log(self, text: object, *args: object, level: str = "info") -> ProgressReply:
        """
        Add a line to the job's log; if the store is unavailable, the line is dropped.

        With *args* the text is formatted: ``job.log("row %d of %d", 7, 10)``.  The line
        is in flight when this returns; ``await job.log(…)`` waits until it was written.
        """
        line = log_line(text, *args, level=level, attempt=self.attempt)
        return self._sink.send(self, line)

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

    def send(self, chunk: JSON) -> ProgressReply:
        """
        Append to the stream of the job, which clients read with ``job.stream()``::

            await job.send(token)

        JSON of up to 64 KiB.  Chunks are in flight when this returns, and all are
        written before the run ends.  ``await job.send(…)`` waits if the store writes
        more slowly than this run sends; in a plain handler the call itself waits.

        Raises:
            StreamFull: The stream has as many chunks, or bytes, as the settings allow.
            BadPayload: It is not JSON, or too large.
            LeaseLost: The job was reclaimed; stop, the outcome of this run is dropped.
            JobNotFound: It was removed.
        """
        return self._sink.send_chunk(self, chunk_of(chunk))

    # -- durable steps ---------------------------------------------------------

    @overload
    def step(
        self,
        name: str,
        function: Callable[P, Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Awaitable[T]: ...

    @overload
    def step(
        self, name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Any: ...

    def step(
        self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """
        Run *function* once for this job, and return its result in every run::

            charge = await job.step("charge", stripe.charge, order.id)

        The result is kept with the job, as JSON of up to 64 KiB: later runs (after an
        error, a lost worker or a sleep) get it without calling *function*.  A step that
        raises is not kept.  In a coroutine the step is awaited, and a plain function
        runs in a thread; in a plain handler this returns the result itself.

        Raises:
            StepError: The name was used before in this run, *function* is not one, the
                result is not JSON, or there are 1,000 steps.
            LeaseLost: The job was reclaimed; stop, the outcome of this run is dropped.
        """
        check_function(name, function)
        return self._durable().step(name, partial(function, *args, **kwargs))

    def sleep(self, delay: Duration | datetime, *, name: str | None = None) -> Any:
        """
        Let the job go on after *delay*, or at an aware datetime::

            await job.sleep("2d")

        The run ends here without spending an attempt, and holds no slot in the
        meantime; then the handler runs again from the top.  Sleeps without a *name* are
        numbered in the order in which a run comes to them.
        """
        return self._durable().sleep(delay, name)

    def wait_for(
        self,
        signal: str,
        *,
        timeout: Duration | None = None,
        default: JSON = NO_DEFAULT,
    ) -> Any:
        """
        Return the data of a signal, once it was sent with `kue.Kue.signal`::

            answer = await job.wait_for("approved", timeout="7d")

        Like `sleep`, it ends the run unless the signal is there.  The first wait for a
        signal gets the first one sent, the second wait the second; those that were sent
        before are kept.  With a *default*, that is returned after *timeout*.

        Raises:
            SignalTimeout: The signal was not sent within *timeout*; that stands, also
                in later runs.
        """
        return self._durable().wait_for(signal, timeout, default)

    def _durable(self) -> DurableSteps:
        if self._steps is None:
            self._steps = DurableSteps(self, self.step_store())
        return self._steps

    def step_store(self) -> StepStore:
        """Return where the steps of this run are kept."""
        raise RuntimeError("steps are kept by a worker, and this job runs in none")

    def lose(self) -> None:
        """Note that the job was reclaimed or removed."""
