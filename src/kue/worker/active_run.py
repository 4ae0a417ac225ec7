"""
Active runs: a run of a job with its timeout and interruption; runs claimed together.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from kue.model import retry_policy
from kue.worker.active_job import ActiveJob
from kue.worker.step_store import RunStepStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from kue.client.batch_handle import BatchHandle, Call
    from kue.model.job import Ending, Job
    from kue.worker.durable_steps import StepStore
    from kue.worker.run_services import RunServices

T = TypeVar("T")

logger = logging.getLogger(__name__)

#: How long an interrupted handler may take to clean up.  Then its ending is settled
#: without it; the slot stays taken for as long as it goes on.
PATIENCE_SECONDS = 10.0


class RunTimeout(Exception):
    """A run took longer than its job's timeout; the name is what the error shows."""


class Expired(Exception):
    """A job expired while it ran; the name is what the error shows."""


class RunOwner(Protocol):
    """The lane that a run belongs to."""

    def abandon(self, run: ActiveRun, /) -> None: ...
    def pause(self, by: str, /) -> None: ...
    def resume(self, by: str, /) -> None: ...


class ActiveRun(ActiveJob):
    """
    One run, from claim to ending.

    It ends once: as its handler decides, or as `interrupt` demands if the handler does
    not return first.
    """

    __slots__ = (
        "_asking",
        "_timers",
        "began",
        "forced",
        "has_begun",
        "is_abandoned",
        "is_asked",
        "is_interrupted",
        "lane",
        "services",
        "task",
    )

    def __init__(self, job: Job, services: RunServices, lane: RunOwner) -> None:
        super().__init__(job, services.progress_sender)
        self.services = services
        self.lane = lane
        #: The task that its handler runs in, while it runs, or that waits for its turn.
        self.task: asyncio.Task[Any] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        #: The one that asks the handler to stop.
        self._asking: asyncio.TimerHandle | None = None
        #: Whether the handler was called, and when, by our own clock.
        self.has_begun = False
        self.began = 0.0
        #: Whether its soft timeout has passed: the handler was asked to stop.
        self.is_asked = False
        #: Whether the run was interrupted before it ended.
        self.is_interrupted = False
        #: Whether its ending was settled although the handler goes on.
        self.is_abandoned = False
        #: How an interrupted run ends; None when the job is no longer ours.
        self.forced: Ending | RunTimeout | Expired | None = None

    @property
    def should_stop(self) -> bool:
        return self.is_interrupted or self.is_asked

    @property
    def is_only_asked(self) -> bool:
        """Whether a cancellation of the handler is that of the soft timeout."""
        return self.is_asked and not self.is_interrupted

    @property
    def batch(self) -> BatchHandle | None:
        flow = self.job.flow
        return None if flow is None else self.services.flow_access.batch(flow)

    async def add(self, *calls: Call, holds_next: bool = False) -> list[int]:
        access = self.services.flow_access
        return await access.add(self.job, calls, holds_next=holds_next)

    def enter(self) -> bool:
        """
        Return whether the handler may be called; from now on it can be cancelled.

        Must be called in the task that runs the handler.
        """
        self.has_begun = not self.is_interrupted
        self.began = time.monotonic()
        # A reference, as asyncio keeps only weak ones.
        self.task = asyncio.current_task()
        job = self.job
        spec = job.spec
        if spec.timeout or spec.soft_timeout or job.expires:
            self._limit_time()
        return self.has_begun

    def _limit_time(self) -> None:
        if not self.has_begun:
            return
        job = self.job
        if job.spec.timeout:
            seconds = job.spec.timeout / 1000
            text = f"the run took longer than its timeout of {seconds:g} s"
            self._later(seconds, self.interrupt, RunTimeout(text))
        if job.spec.soft_timeout:
            self._asking = self._later(job.spec.soft_timeout / 1000, self._ask)
        if job.expires:
            left = job.created_at + job.expires - self.now_ms
            text = retry_policy.expired_run(job.expires)
            self._later(left / 1000, self.interrupt, Expired(text))

    def leave_asking_to_child(self) -> None:
        """Have the child process ask its handler to stop: it knows when it began."""
        if self._asking is not None:
            self._asking.cancel()

    def leave(self) -> None:
        """Note that the handler has ended, and can no longer be cancelled."""
        self.task = None
        for timer in self._timers:
            timer.cancel()

    def lose(self) -> None:
        self.interrupt(None)

    def step_store(self) -> StepStore:
        return RunStepStore(self)

    def interrupt(self, ending: Ending | RunTimeout | Expired | None) -> None:
        """
        End the run as *ending* unless it succeeds first; None if the run is lost.

        The first ending stands, unless the run is lost; the handler is cancelled once.
        """
        is_first = not self.is_interrupted
        if is_first or ending is None:
            self.forced = ending
        self.is_interrupted = True
        # A task that is cancelled before its first step never returns an ending.
        if is_first and self.task is not None:
            self.task.cancel()
            if self.has_begun:
                self._later(PATIENCE_SECONDS, self._abandon)

    def _ask(self) -> None:
        """Ask the handler to stop: its soft timeout has passed."""
        if not self.is_interrupted and self.task is not None:
            self.is_asked = True
            self.task.cancel()

    def _later(
        self, seconds: float, call: Callable[..., None], *args: object
    ) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, call, *args)
        self._timers.append(timer)
        return timer

    def _abandon(self) -> None:
        logger.error(
            "job %d of type %s was interrupted %g s ago and is still running; "
            "its slot stays taken until it returns",
            self.id,
            self.type,
            PATIENCE_SECONDS,
            extra={"job_id": self.id},
        )
        self.is_abandoned = True
        self.lane.abandon(self)


class ClaimedRuns(Generic[T]):
    """
    Calls *run_one* with each of *runs*, concurrently if one of them waits.

    Many handlers finish without ever waiting, and creating a task took longer than such
    a run.  So one task runs them one after the other; once a run does wait, each run
    that has not begun gets its own task.  No run sees that another ran before it: a
    task that a run left changed (a context variable, a cancellation) is not used again.
    """

    def __init__(
        self,
        runs: Iterable[T],
        run_one: Callable[[T], Coroutine[Any, Any, None]],
    ) -> None:
        self._left = deque(runs)
        self._run_one = run_one
        self._is_split = False
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        self._loop.create_task(self._go())

    async def _go(self) -> None:
        # Called as soon as we wait, or are done.
        self._loop.call_soon(self._split)
        task = asyncio.current_task()
        context = copy_context()
        while self._left:
            await self._run_one(self._left.popleft())
            if self._is_split or copy_context() != context:
                return
            if task is None or task.cancelling():
                return

    def _split(self) -> None:
        self._is_split = True
        for run in self._left:
            self._loop.create_task(self._run_one(run))
        self._left.clear()
