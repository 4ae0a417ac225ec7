"""The verbs of a queue that only look, for ordinary code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.client.sync.connection import BlockingCalls
from kue.client.sync.handle import SyncJobHandle
from kue.store.values import MAX_SCAN

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.client.queries import Order
    from kue.model.job import Job, PriorityGiven, State
    from kue.store.values import (
        Errors,
        Limits,
        LogLine,
        Page,
        Pause,
        Stacks,
        Stat,
        StoreFacts,
        WorkerStatus,
    )


class SyncQueries(BlockingCalls):
    """What can be asked of a queue; `kue.client.queries.Reading`, blocking."""

    def now(self) -> int:
        """Return the store's clock, Unix ms: the one all times of jobs are told by."""
        return self.call(lambda q: q.now())

    def get(self, job_id: int) -> SyncJobHandle[Any]:
        """Return job *job_id*, read just now."""
        return SyncJobHandle(self, self.call(lambda q: q.get(job_id)))

    def exists(self, job_id: int) -> bool:
        """Tell whether there is such a job."""
        return self.call(lambda q: q.exists(job_id))

    def handle(self, job: Job) -> SyncJobHandle[Any]:
        """Return the handle of a job that `page`, `range` or `find` gave."""
        return SyncJobHandle(self, self._queue.handle(job))

    def logs(self, job_id: int, start: int = 0, stop: int = -1) -> list[LogLine]:
        """Return lines *start* to *stop* (inclusive) of a job's log."""
        return self.call(lambda q: q.logs(job_id, start, stop))

    # -- counting --------------------------------------------------------------

    def counts_by_type(self) -> dict[str, dict[State, int]]:
        """Return how many jobs each type has in each state."""
        return self.call(lambda q: q.counts_by_type())

    def counts(self, type: str | None = None) -> dict[State, int]:
        """Return how many jobs of *type* (None: of all types) each state has."""
        return self.call(lambda q: q.counts(type))

    def count(self, state: State | str, type: str | None = None) -> int:
        """Return how many jobs of *type* (None: of all types) are in *state*."""
        return self.call(lambda q: q.count(state, type))

    def inactive_count(self, type: str | None = None) -> int:
        """Return how many jobs wait to run."""
        return self.call(lambda q: q.inactive_count(type))

    def active_count(self, type: str | None = None) -> int:
        """Return how many jobs run."""
        return self.call(lambda q: q.active_count(type))

    def delayed_count(self, type: str | None = None) -> int:
        """Return how many jobs wait for their time."""
        return self.call(lambda q: q.delayed_count(type))

    def complete_count(self, type: str | None = None) -> int:
        """Return how many jobs ended well and are kept."""
        return self.call(lambda q: q.complete_count(type))

    def failed_count(self, type: str | None = None) -> int:
        """Return how many jobs failed and are kept."""
        return self.call(lambda q: q.failed_count(type))

    def types(self) -> list[str]:
        """Return every type that ever had a job, sorted."""
        return self.call(lambda q: q.types())

    def work_time(self) -> int:
        """Return how long runs of the last 24 hours took, all together, in ms."""
        return self.call(lambda q: q.work_time())

    def stats(self, since: int, until: int) -> list[Stat]:
        """Return counters by minute and type, from minute *since* to *until*."""
        return self.call(lambda q: q.stats(since, until))

    def hours(self, since: int, until: int) -> list[Stat]:
        """Return counters by hour and type, from hour *since* to *until*."""
        return self.call(lambda q: q.hours(since, until))

    def facts(self) -> StoreFacts:
        """Return what keeps the jobs: engine, version, size, and how fast it is."""
        return self.call(lambda q: q.facts())

    def stacks(self, worker: str) -> Stacks | None:
        """Return what a worker was doing when it was last asked, in these minutes."""
        return self.call(lambda q: q.stacks(worker))

    def errors(self, type: str | None = None, *, limit: int = 50) -> Errors:
        """Return what jobs that are failed now failed of, the most frequent first."""
        return self.call(lambda q: q.errors(type, limit=limit))

    def workers(self) -> list[WorkerStatus]:
        """Return the workers the store knows of, by name."""
        return self.call(lambda q: q.workers())

    # -- listing ---------------------------------------------------------------

    def page(
        self,
        state: State | str | None = None,
        type: str | None = None,
        *,
        limit: int = 50,
        cursor: str | None = None,
        skip: int = 0,
        descending: bool = False,
    ) -> Page:
        """Return jobs in order, from *cursor* on; a page has the next one's cursor."""
        return self.call(
            lambda q: q.page(
                state,
                type,
                limit=limit,
                cursor=cursor,
                skip=skip,
                descending=descending,
            )
        )

    def range(
        self,
        first: int,
        last: int,
        order: Order = "asc",
        *,
        state: State | str | None = None,
        type: str | None = None,
    ) -> list[Job]:
        """Return jobs number *first* to *last*, both included, counted from 0."""
        return self.call(lambda q: q.range(first, last, order, state=state, type=type))

    def find(
        self,
        *,
        type: str | None = None,
        state: State | str | None = None,
        tag: str | None = None,
        text: str | None = None,
        error: str | None = None,
        worker: str | None = None,
        group: str | None = None,
        priority: PriorityGiven | None = None,
        fingerprint: str | None = None,
        data: dict[str, Any] | None = None,
        since: int | None = None,
        until: int | None = None,
        limit: int = 50,
        cursor: str | None = None,
        descending: bool = False,
        scan: int = MAX_SCAN,
        accept: Callable[[Job], bool] | None = None,
    ) -> Page:
        """Return jobs that match everything given."""
        return self.call(
            lambda q: q.find(
                type=type,
                state=state,
                tag=tag,
                text=text,
                error=error,
                worker=worker,
                group=group,
                priority=priority,
                fingerprint=fingerprint,
                data=data,
                since=since,
                until=until,
                limit=limit,
                cursor=cursor,
                descending=descending,
                scan=scan,
                accept=accept,
            )
        )

    def paused(self) -> list[Pause]:
        """Return the pauses in force."""
        return self.call(lambda q: q.paused())

    def limits(self) -> dict[str, Limits]:
        """Return the limits in force, by type."""
        return self.call(lambda q: q.limits())
