"""Steps of a run in a worker: kept by its store, through outages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from kue.aio.loop_calls import block_on
from kue.model.sealed_payload import readable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from msgspec import Raw

    from kue.model.steps import JobSteps, Step
    from kue.store.values import Result
    from kue.worker.active_run import ActiveRun

T = TypeVar("T")


class RunStepStore:
    """A `StepStore` for a run of a worker; created on any thread."""

    def __init__(self, run: ActiveRun) -> None:
        self._run = run
        self._services = run.services

    async def read(self) -> JobSteps:
        found = await self._outlast(lambda: self._services.store.steps(self._run.id))
        for step in found.steps:
            readable(step.result, f"what {step.kind} {step.name!r} returned")
        return found

    async def record(self, name: str, result: Raw, duration: int) -> Result:
        return await self._outlast(
            lambda: self._services.store.record_step(
                self._run.job, name, result, duration=duration
            )
        )

    async def receive(self, signal: str, number: int) -> Step | Result | None:
        found = await self._outlast(
            lambda: self._services.store.receive(self._run.job, signal, number)
        )
        if not isinstance(found, str | None):
            readable(found.result, f"the data of signal {signal!r}")
        return found

    async def call(self, function: Callable[[], Any]) -> Any:
        return await self._services.threads.call(function)

    def block(self, call: Coroutine[Any, Any, T]) -> T:
        return block_on(self._services.loop, call)

    async def _outlast(self, call: Callable[[], Awaitable[T]]) -> T:
        """
        Return what *call* returns, once the store is there.

        What a step did is done: its record waits, as the ending of the run would.  The
        wait is over when the run is interrupted.
        """
        retry = self._services.store_retry
        return await retry.outlast(f"steps {self._run.id}", call)
