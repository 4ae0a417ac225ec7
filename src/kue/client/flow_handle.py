"""Flow handles: the jobs of a flow that was added, and its result."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from kue.client.flow_plan import numbers_in
from kue.model.duration import milliseconds
from kue.model.errors import JobFailed, JobNotFound, StoreUnavailable
from kue.model.events import Kind
from kue.model.job import UNKNOWN_ERROR, State
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kue.client.connection import Connection
    from kue.client.flow_plan import FlowPlan, Output
    from kue.client.handle import JobHandle
    from kue.model.duration import Duration

T_co = TypeVar("T_co", covariant=True)


class FlowHandle(Generic[T_co]):
    """A flow in the store, whose result is a ``T_co``."""

    def __init__(
        self, connection: Connection, plan: FlowPlan, jobs: Sequence[JobHandle[Any]]
    ) -> None:
        self._connection = connection
        #: All jobs of the flow; each comes after those it waits for.
        self.jobs = list(jobs)
        self._last: Output = plan.last
        self._last_ids = {jobs[number - 1].id for number in numbers_in(plan.last)}
        #: Failures of these keep one of the last jobs from running.
        self._watched = [jobs[number - 1].id for number in _needed(plan)]

    def __repr__(self) -> str:
        return f"<FlowHandle {self.flow} of {len(self.jobs)} jobs>"

    @property
    def flow(self) -> int:
        """The id of the flow: that of its first job."""
        return self.jobs[0].id

    @property
    def id(self) -> int:
        """
        The id of its last job.

        Raises:
            ValueError: It ends with a group, which has many.
        """
        if isinstance(self._last, list):
            raise ValueError(f"flow {self.flow} ends with a group; use its jobs")
        return self.jobs[self._last - 1].id

    async def result(self, timeout: Duration | None = None) -> T_co:
        """
        Wait until the flow has ended and return its result: of a group, a list.

        Raises:
            JobFailed: A job of the flow failed, so that the rest cannot run.
            JobCancelled, JobNotFound: The last job ended that way.
            TimeoutError: It did not end within *timeout*; it goes on.
        """
        if timeout is None:
            return await self._result()
        seconds = milliseconds(timeout, field="timeout") / 1000
        try:
            async with asyncio.timeout(seconds):
                return await self._result()
        except TimeoutError:
            raise TimeoutError(
                f"flow {self.flow} did not end within {seconds:g} s"
            ) from None

    async def cancel(self, reason: str = "") -> None:
        """Cancel all its jobs that have not ended; running ones are asked to stop."""
        ids = [job.id for job in self.jobs]
        for start in range(0, len(ids), MAX_BATCH):
            part = ids[start : start + MAX_BATCH]
            await self._connection.store.cancel(part, reason=reason)

    async def _result(self) -> T_co:
        results: dict[int, Any] = {}
        async with self._connection.store.watch(self._watched) as events:
            # Read only after subscribing: an earlier end was not sent to us.
            await self._look(self._watched, results)
            while len(results) < len(self._last_ids):
                event = await anext(events, None)
                if event is None:
                    raise StoreUnavailable(
                        f"the queue was closed while flow {self.flow} was awaited"
                    )
                if event.kind is Kind.LAGGED:
                    await self._look(self._watched, results)
                elif event.kind.is_final and event.job_id is not None:
                    await self._look([event.job_id], results, is_over=event.kind)
        return cast("T_co", self._shaped(self._last, results))

    async def _look(
        self,
        ids: Collection[int],
        results: dict[int, Any],
        is_over: Kind | None = None,
    ) -> None:
        """Read jobs; note the results of the last ones, raise if the flow is over."""
        wanted = set(ids)
        handles = [job for job in self.jobs if job.id in wanted]
        for start in range(0, len(handles), MAX_BATCH):
            part = handles[start : start + MAX_BATCH]
            found = await self._connection.store.get([handle.id for handle in part])
            for handle, job in zip(part, found, strict=True):
                is_last = handle.id in self._last_ids
                if job is None:
                    if is_last and is_over is not Kind.COMPLETE:
                        raise JobNotFound(handle.id)
                    if is_last:
                        results[handle.id] = None
                elif job.state is State.FAILED:
                    error = job.error or UNKNOWN_ERROR
                    raise JobFailed(job.id, error.kind, error.message)
                elif is_last and job.state.is_final:
                    results[handle.id] = handle._read_result(job)

    def _shaped(self, output: Output, results: dict[int, Any]) -> Any:
        if isinstance(output, list):
            return [self._shaped(one, results) for one in output]
        return results[self.jobs[output - 1].id]


def _needed(plan: FlowPlan) -> set[int]:
    """Return the numbers of the last jobs, and of all that must succeed before them."""
    needed = set(numbers_in(plan.last))
    left = list(needed)
    while left:
        draft = plan.drafts[left.pop() - 1]
        if draft.on_parent_failure in ("block", "cancel"):
            parents = {-one for one in draft.spec.after if one < 0} - needed
            needed |= parents
            left += parents
    return needed
