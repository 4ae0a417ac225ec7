"""Hooks: functions called when a worker starts or stops, or when a job fails."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from kue.model.job import Error, Failed, Job

if TYPE_CHECKING:
    from kue.store.values import Outcome

logger = logging.getLogger(__name__)

#: May be a coroutine function.
Hook: TypeAlias = Callable[[], Awaitable[object] | object]
FailureHook: TypeAlias = Callable[[Job, Error], Awaitable[object] | object]


class Hooks:
    """The hooks of a queue, in the order of their registration."""

    def __init__(self) -> None:
        self.startup: list[Hook] = []
        self.shutdown: list[Hook] = []
        self.failure: list[FailureHook] = []

    async def start(self) -> None:
        """Call the start-up hooks; one that raises keeps the worker from starting."""
        for hook in self.startup:
            await _called(hook())

    async def stop(self) -> None:
        """Call the shutdown hooks, the last registered first; none is left out."""
        for hook in reversed(self.shutdown):
            try:
                await _called(hook())
            except Exception:
                logger.exception("shutdown hook %r raised", hook)


class FailureNotifier:
    """Calls the failure hooks of one worker, in tasks next to its work."""

    def __init__(self, hooks: list[FailureHook]) -> None:
        self._hooks = hooks
        self._calls: set[asyncio.Task[None]] = set()

    def notify(self, outcome: Outcome) -> None:
        """Call the hooks for a job that failed for good."""
        if isinstance(outcome.ending, Failed):
            call = self._call_hooks(outcome.job, outcome.ending.error)
            task = asyncio.create_task(call, name=f"kue failure {outcome.job.id}")
            self._calls.add(task)
            task.add_done_callback(self._calls.discard)

    async def done(self) -> None:
        """Return once all hooks have returned."""
        if self._calls:
            await asyncio.wait(self._calls)

    async def _call_hooks(self, job: Job, error: Error) -> None:
        for hook in self._hooks:
            try:
                await _called(hook(job, error))
            except Exception:
                logger.exception(
                    "failure hook %r raised", hook, extra={"job_id": job.id}
                )


async def _called(answer: Awaitable[object] | object) -> None:
    if inspect.isawaitable(answer):
        await answer
