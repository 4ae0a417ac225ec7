"""A run in a worker's hands: the job as its handler sees it, and how to end it."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from kue.worker.active_job import ActiveJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.model.job import Ending, Job
    from kue.worker.run_resources import RunResources

logger = logging.getLogger(__name__)

#: How long a handler that was told to end may take to tidy up.  Then its ending is
#: written down without it; the slot stays taken for as long as it goes on.
PATIENCE_SECONDS = 10.0


class RunTimeout(Exception):
    """A run took longer than its job's timeout; the name is what the error shows."""


class ActiveRun(ActiveJob):
    """
    One run, from claim to ending.

    It ends once: as its handler says, or as `interrupt` was told if the handler does
    not return first.
    """

    __slots__ = (
        "_on_abandoned",
        "_task",
        "_timers",
        "began",
        "crew",
        "has_begun",
        "instead",
        "is_abandoned",
        "is_interrupted",
    )

    def __init__(
        self, job: Job, crew: RunResources, on_abandoned: Callable[[ActiveRun], None]
    ) -> None:
        super().__init__(job, crew.telling)
        self.crew = crew
        self._on_abandoned = on_abandoned
        self._task: asyncio.Task[Any] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        #: Whether the handler was called, and when, by our own clock.
        self.has_begun = False
        self.began = 0.0
        #: Whether the run was told to end before it did.
        self.is_interrupted = False
        #: Whether its ending was written down although the handler goes on.
        self.is_abandoned = False
        #: How an interrupted run ends; None when that is no longer ours to say.
        self.instead: Ending | RunTimeout | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the job was handed on, so that this run no longer counts."""
        return self.is_interrupted and self.instead is None

    @property
    def task(self) -> asyncio.Task[Any] | None:
        """The task that its handler runs in, while it does."""
        return self._task

    @property
    def should_stop(self) -> bool:
        return self.is_interrupted

    def enter(self) -> bool:
        """
        Tell whether the handler may be called; from now on it can be cancelled.

        Called in the task that is to call it.
        """
        self.has_begun = not self.is_interrupted
        self.began = time.monotonic()
        # Kept here, or asyncio would forget it.
        self._task = asyncio.current_task()
        timeout = self.job.spec.timeout
        if timeout and self.has_begun:
            self._later(timeout / 1000, self.interrupt, _too_long(timeout))
        return self.has_begun

    def leave(self) -> None:
        """Take note that the handler has ended, and can no longer be cancelled."""
        self._task = None
        for timer in self._timers:
            timer.cancel()

    def lose(self) -> None:
        self.interrupt(None)

    def interrupt(self, instead: Ending | RunTimeout | None) -> None:
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
            self._later(PATIENCE_SECONDS, self._abandon)

    def _later(self, seconds: float, call: Callable[..., None], *args: object) -> None:
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(seconds, call, *args))

    def _abandon(self) -> None:
        logger.error(
            "job %d of type %s was told to end %g s ago and goes on; "
            "its slot stays taken until it returns",
            self.id,
            self.type,
            PATIENCE_SECONDS,
            extra={"job_id": self.id},
        )
        self.is_abandoned = True
        self._on_abandoned(self)


def _too_long(timeout: int) -> RunTimeout:
    return RunTimeout(f"the run took longer than its timeout of {timeout / 1000:g} s")
