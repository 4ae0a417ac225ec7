"""The job a handler is given: what to do, and a way to give signs of life."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from kue import signs
from kue.errors import StoreUnavailable
from kue.replies import check

if TYPE_CHECKING:
    import asyncio

    from kue.job import Ending, Job
    from kue.payload import JSON
    from kue.store.base import Store

logger = logging.getLogger(__name__)


class ActiveJob:
    """
    A job while it runs.

    Handlers read :attr:`data` and may tell of themselves with :meth:`log` and
    :meth:`progress`.  What they return becomes the job's result; what they raise, its
    error.
    """

    __slots__ = (
        "_clock",
        "_store",
        "_task",
        "has_begun",
        "instead",
        "is_interrupted",
        "job",
    )

    def __init__(self, store: Store, job: Job) -> None:
        #: The job as it was claimed.
        self.job = job
        self._store = store
        self._task: asyncio.Task[None] | None = None
        #: Whether the handler was called.
        self.has_begun = False
        self._clock = time.monotonic()
        #: Whether the run was told to end before it did.
        self.is_interrupted = False
        #: How an interrupted run ends; None when that is no longer ours to say.
        self.instead: Ending | None = None

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
    def attempt(self) -> int:
        """Which attempt this is; 1 for the first."""
        return self.job.attempts

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

    async def log(self, text: object, level: str = "info") -> None:
        """Add a line to the job's log; a store that is away costs the line alone."""
        line = signs.line(text, level, attempt=self.attempt)
        try:
            word = await self._store.log(self.id, [line])
        except StoreUnavailable as exc:
            logger.warning("log line dropped: %s", exc, extra={"job_id": self.id})
        else:
            check(self.id, word, wanted="be logged to")

    async def progress(
        self, done: float, total: float = 100, data: JSON = None
    ) -> None:
        """
        Say how far the run is, which also starts its ttl anew.

        Raises:
            LeaseLost: The job was handed on; stop, whatever this run does is dropped.
            JobNotFound: It was removed.
        """
        update = signs.progress(self.id, done, total, data, token=self.job.token)
        try:
            [word] = await self._store.progress([update])
        except StoreUnavailable as exc:
            logger.warning("progress dropped: %s", exc, extra={"job_id": self.id})
        else:
            check(self.id, word, wanted="report progress")

    # -- for the worker --------------------------------------------------------

    def begin(self, task: asyncio.Task[None]) -> None:
        """Remember the task that runs the handler, for `interrupt`."""
        self._task = task

    @property
    def is_lost(self) -> bool:
        """Whether the job was handed on, so that this run no longer counts."""
        return self.is_interrupted and self.instead is None

    def enter(self) -> bool:
        """Tell whether the handler may be called; from now on it can be cancelled."""
        self.has_begun = not self.is_interrupted
        return self.has_begun

    def interrupt(self, instead: Ending | None) -> None:
        """
        End the run as *instead* unless it ends well first; None: it no longer counts.

        The first reason stands, unless the run is lost; the handler is cancelled once.
        """
        is_first = not self.is_interrupted
        if is_first or instead is None:
            self.instead = instead
        self.is_interrupted = True
        # A task that is cancelled before its first step never gets to say how it ended.
        if is_first and self.has_begun and self._task is not None:
            self._task.cancel()
