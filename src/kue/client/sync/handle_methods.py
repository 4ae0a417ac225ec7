"""
Blocking methods of a job's handle.

Written by ``tools/make_sync.py`` from the async methods; do not edit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from kue.client.sync.connection import BlockingHandle, T_co

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from kue.model.duration import Duration
    from kue.model.job import Job, PriorityGiven
    from kue.model.options import AttemptsGiven
    from kue.model.payload import JSON
    from kue.model.steps import JobSteps
    from kue.store.values import LogLine


class SyncHandleMethods(BlockingHandle[T_co]):
    """Blocking methods of a job's handle."""

    def refresh(self) -> Job:
        """
        Read the job as it is now.

        Raises:
            JobNotFound: It was removed, or its id belongs to another job by now.
        """
        return self._call(lambda job: job.refresh())

    def logs(self, start: int = 0, stop: int = -1) -> list[LogLine]:
        """
        Return lines *start* to *stop* of its log, both included.

        Raises:
            JobNotFound: It was removed, or its id belongs to another job by now.
        """
        return self._call(lambda job: job.logs(start, stop))

    def result(self, timeout: Duration | None = None) -> T_co:
        """
        Wait until the job has ended and return its result.

        The store notifies us; nothing is polled.  The result of a job with
        ``remove_on_complete`` is only sent to those who wait: if it ended before, this
        raises JobNotFound.

        Raises:
            JobFailed, JobCancelled: It ended that way.
            JobNotFound: It was removed.
            PayloadRefused: It is sealed with a key that this queue does not have.
            TimeoutError: It did not end within *timeout*; it goes on.
            Whatever the reader raises for a result that it does not expect.
        """
        return self._call(lambda job: job.result(timeout))

    def log(self, text: object, *args: object, level: str = "info") -> None:
        """Add a line to the job's log, whatever its state; *args* fill its %s."""
        self._call(lambda job: job.log(text, *args, level=level))

    def progress(self, done: float, total: float = 100, data: JSON = None) -> None:
        """
        Report the progress of the running job.

        Raises:
            InvalidTransition: It does not run.
        """
        self._call(lambda job: job.progress(done, total, data))

    def steps(self) -> JobSteps:
        """
        Return what the job did and waits for, and the signals sent to it.

        Raises:
            JobNotFound: It was removed, or its id belongs to another job by now.
        """
        return self._call(lambda job: job.steps())

    def signal(self, name: str, data: JSON = None) -> None:
        """
        Send a signal: ``job.wait_for(name)`` in its handler returns *data*.

        It is kept until the job waits for it; a job that waits goes on at once.

        Raises:
            InvalidTransition: It has ended.
            BadPayload: *data* is not JSON, or has more than 64 KiB.
            ValueError: *name* cannot be one, or 1,000 signals were sent to the job.
        """
        self._call(lambda job: job.signal(name, data))

    def update(
        self,
        *,
        data: JSON | msgspec.UnsetType = msgspec.UNSET,
        priority: PriorityGiven | msgspec.UnsetType = msgspec.UNSET,
        tags: Iterable[str] | msgspec.UnsetType = msgspec.UNSET,
        attempts: AttemptsGiven | msgspec.UnsetType = msgspec.UNSET,
        meta: Mapping[str, str] | msgspec.UnsetType = msgspec.UNSET,
    ) -> None:
        """
        Change what is given; a run in progress keeps the data it started with.

        Fields of *meta* are set, and those not named stay.
        """
        tags = tags if tags is msgspec.UNSET else tuple(tags)
        self._call(
            lambda job: job.update(
                data=data, priority=priority, tags=tags, attempts=attempts, meta=meta
            )
        )

    def set(self, key: str, value: str) -> None:
        """
        Set a further field of the job, which is kept with it: its ``meta``.

        Text; all fields together have at most 8 KiB.

        Raises:
            JobNotFound: It was removed, or its id belongs to another job by now.
            BadPayload: There is too much of it.
        """
        self._call(lambda job: job.set(key, value))

    def get(self, key: str) -> str | None:
        """Return a further field of the job as it is now; None if it was never set."""
        return self._call(lambda job: job.get(key))

    def cancel(self, reason: str = "") -> bool:
        """
        Cancel the job, and return whether it has ended.

        False means that it runs and its worker was notified: await `result` to be sure.

        Raises:
            InvalidTransition: It is complete or failed already.
        """
        return self._call(lambda job: job.cancel(reason))

    def remove(self, *, force: bool = False) -> None:
        """
        Delete the job with its log.

        Raises:
            InvalidTransition: It runs; *force* deletes it anyway.
        """
        self._call(lambda job: job.remove(force=force))

    def retry(self, *, data: JSON | msgspec.UnsetType = msgspec.UNSET) -> bool:
        """
        Requeue an ended job, with other *data* if given; return whether this call did.

        Its attempts start again from 0.  A failed or cancelled job keeps the steps that
        it finished, a complete one begins afresh.  What is retried is the ending that
        this handle read last (now, if it has read none): False means that someone else
        has retried it since, and that the job was left as it is.

        Raises:
            InvalidTransition: It has not ended; or other *data* is given, and it was
                retried since.
            UniqueHeld: Another job holds its unique key.
        """
        return self._call(lambda job: job.retry(data=data))

    def promote(self) -> None:
        """
        Let a job run now that is delayed or waits for others.

        Raises:
            InvalidTransition: It runs or has ended.
        """
        self._call(lambda job: job.promote())

    def delay(self, delay: Duration | datetime) -> None:
        """
        Let the job run no sooner than after *delay*, or at an aware datetime.

        One that had ended when this handle read it starts again then.

        Raises:
            InvalidTransition: It runs, or has ended or was restarted since this handle
                read it.
            UniqueHeld: It had ended, and another job holds its unique key.
        """
        self._call(lambda job: job.delay(delay))
