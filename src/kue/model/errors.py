"""
Errors: every exception that Kue raises on purpose.

docs/reference/errors.md shows them as a tree.

Handlers steer their own run by raising one of these, which are not KueErrors:
Retry, Release, Fail, Cancel, Skip.  Data that does not fit a task is BadArguments, a
Fail; so are StepError, StreamFull and SignalTimeout.  Suspended ends a run that sleeps
or waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from kue.model.job import State


class KueError(Exception):
    """Base class of every error Kue raises on purpose."""


class ConfigError(KueError, ValueError):
    """A setting is missing, unknown or makes no sense."""


class BadPayload(KueError, ValueError):
    """A value is not JSON, nests too deep or is too large; nothing was sent."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class PayloadRefused(KueError, ValueError):
    """A payload is not signed or encrypted as it must be, or its key is missing."""


class JobError(KueError):
    """Something is wrong with one particular job."""

    def __init__(self, job_id: int, message: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class JobNotFound(JobError):
    """No job has this id; it never existed or has been removed."""

    def __init__(self, job_id: int) -> None:
        super().__init__(job_id, f"job {job_id} does not exist")


class InvalidTransition(JobError):
    """The job is in the wrong state for the requested operation."""

    def __init__(self, job_id: int, state: State | None, wanted: str) -> None:
        was = f"is {state}" if state else "cannot be found in any state"
        super().__init__(job_id, f"job {job_id} {was} and cannot {wanted}")
        self.state = state


class UnknownParent(JobError):
    """A job was not added: it should wait for one that was never added."""

    def __init__(self, job_id: int) -> None:
        super().__init__(
            job_id,
            f"no job was added: job {job_id}, which one should wait for, was never "
            "added to this store; check the id, and add that job first",
        )


class LeaseLost(JobError):
    """The lease ran out and the job was reclaimed."""

    def __init__(self, job_id: int) -> None:
        super().__init__(
            job_id,
            f"the lease on job {job_id} ran out and the job was reclaimed; "
            "whatever this run still reports is dropped",
        )


class StreamRestarted(JobError):
    """Another run of the job began: what its stream has sent before does not count."""

    def __init__(self, job_id: int) -> None:
        super().__init__(
            job_id,
            f"job {job_id} was started again, and so is its stream: drop what was "
            "read, and call stream() again",
        )


class UniqueHeld(JobError):
    """Another unfinished job holds the same unique key."""

    def __init__(self, job_id: int, holder: int | None) -> None:
        by = f"job {holder}" if holder is not None else "another job"
        super().__init__(
            job_id,
            f"job {job_id} cannot be requeued: {by} holds its unique key; "
            "wait for that one, cancel it or remove it",
        )
        self.holder = holder


class DuplicateJob(JobError):
    """A job was not added: another holds its unique key, :attr:`holder`."""

    def __init__(self, holder: int, key: str) -> None:
        super().__init__(
            holder,
            f"no job was added: job {holder} holds the unique key {key!r}; wait for "
            "that one, or leave out on_conflict='reject' to get it",
        )
        self.holder = holder
        self.key = key


class JobFailed(JobError):
    """The awaited job ended in ``failed``; :attr:`message` is that of its error."""

    def __init__(self, job_id: int, kind: str, message: str) -> None:
        super().__init__(job_id, f"job {job_id} failed: {kind}: {message}")
        self.kind = kind
        self.message = message


class JobCancelled(JobError):
    """The awaited job was cancelled."""

    def __init__(self, job_id: int, reason: str) -> None:
        why = f": {reason}" if reason else ""
        super().__init__(job_id, f"job {job_id} was cancelled{why}")
        self.reason = reason


class QueueFull(KueError):
    """
    A job was not added: as many of its type wait as its cap allows.

    Of several that were given at once, :attr:`added` had been added before it.
    """

    def __init__(self, type: str, most: int, *, waited: float = 0) -> None:
        after = f" after {waited:g} s" if waited else ""
        super().__init__(
            f"no job of type {type!r} was added{after}: {most:,} wait already, as many "
            "as its cap allows; add it later, run more workers, or raise max_waiting"
        )
        self.type = type
        self.most = most
        self.added = 0


class ScheduleNotFound(KueError):
    """No schedule has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"schedule {name!r} does not exist; list them all to compare")
        self.name = name


class ScheduleDeclared(KueError, ValueError):
    """The schedule is declared in code, and cannot be changed at run time."""

    def __init__(self, name: str, module: str) -> None:
        super().__init__(
            f"schedule {name!r} is declared in code, by {module}; change it there, or "
            "choose another name"
        )
        self.name = name


class StoreError(KueError):
    """The store failed or refused an operation."""


class StoreUnavailable(StoreError):
    """The store cannot be reached.  The operation may be retried."""

    #: Whether it may have been done: it was sent, or begun, and no reply came.
    is_unknown = False


class StoreFull(StoreError):
    """The store accepts no new jobs; those it has go on, and make room."""


class StoreRefused(StoreError):
    """The store works but is not fit to keep jobs; the message names what to change."""


class StoreCorrupt(StoreError):
    """The file, or a structure in it, is damaged; ``kue doctor`` has details."""


class DurabilityUnknown(StoreError):
    """The jobs are stored, but no replica confirmed them in time."""

    def __init__(self, job_ids: list[int]) -> None:
        is_one = len(job_ids) == 1
        what = "1 job is" if is_one else f"{len(job_ids)} jobs are"
        them = "it" if is_one else "them"
        super().__init__(
            f"{what} stored but no replica confirmed {them} in time; "
            f"a fail-over now could lose {them}"
        )
        self.job_ids = job_ids


class Retry(Exception):
    """
    Raised by a handler: this attempt failed, retry *after* that long.

    Without *after*, the job's backoff decides.
    """

    def __init__(
        self, reason: str = "", *, after: float | str | timedelta | None = None
    ) -> None:
        super().__init__(reason or "retry asked for by the handler")
        self.after = after


class Release(Exception):
    """Raised by a handler: not now; run again later without spending an attempt."""

    def __init__(
        self,
        delay: float | str | timedelta | datetime = 0,
        *,
        counts: bool = False,
        reason: str = "",
    ) -> None:
        super().__init__(reason or "released by the handler")
        self.delay = delay
        self.counts = counts


class Fail(Exception):
    """
    Raised by a handler: this will never work, do not retry.

    ``raise Fail from error``, without a text, fails the job with that error.
    """


class Cancel(Exception):
    """Raised by a handler: end this job as cancelled."""


class Skip(Exception):
    """Raised by a handler: there is nothing to do; end this job as complete."""


class SoftTimeout(Exception):
    """
    Raised inside a handler that took longer than its job's ``soft_timeout``.

    It may clean up, and return or raise.  Coroutines are cancelled instead, and get
    `asyncio.CancelledError`; if they do not return, this is the error of the run.
    """

    def __init__(
        self, message: str = "the run took longer than its soft timeout"
    ) -> None:
        super().__init__(message)


class Suspended(BaseException):
    """
    Ends a run whose job sleeps or waits for a signal: ``job.sleep``, ``job.wait_for``.

    Not an `Exception`, so that ``except Exception`` in a handler does not swallow it.
    """

    def __init__(self, reason: str, field: str, delay: int) -> None:
        super().__init__(reason)
        #: The sleep or wait, as a field of the steps, and how long it lasts, in ms.
        self.field = field
        self.delay = delay


#: By which a handler decides how its run ends; whatever else it raises is an error.
STEERING = (Retry, Release, Fail, Cancel, Skip, Suspended)


class StepError(Fail):
    """A step has the name of another one, or cannot be kept; no retry can fix it."""


class StreamFull(Fail):
    """A job has sent as many chunks, or bytes, as a stream may have; no retry helps."""


class SignalTimeout(Fail):
    """
    The signal that a job waited for did not come in time.

    That is kept as well: another attempt would find the same.  When the failed job is
    retried by hand, the wait begins again.
    """


class BadArguments(Fail):
    """The job's data does not fit the parameters of its task; no retry can fix it."""
