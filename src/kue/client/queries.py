"""Queries of a queue: counts, pages, ranges, searches, logs, statistics, workers."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, Unpack

from kue.client.handle import JobHandle
from kue.model.duration import Duration, milliseconds
from kue.model.errors import JobNotFound
from kue.model.job import State
from kue.store.values import (
    HOURS_KEPT,
    MAX_BATCH,
    MAX_SCAN,
    Filter,
    Limits,
    LimitUse,
    LogLine,
    Page,
    PageRequest,
    Pause,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.client.connection import Connection
    from kue.model.job import Job
    from kue.model.named_limits import StoredLimit
    from kue.model.options import FilterOptions
    from kue.model.steps import JobSteps
    from kue.store.values import Errors, Stacks, Stat, StoreFacts, WorkerStatus

Order = Literal["asc", "desc"]

#: Kue's name for ``waiting``.
INACTIVE = "inactive"
#: How far back the store's counters reach, in minutes, and those by hour, in hours.
STATS_MINUTES = 24 * 60
STATS_HOURS = HOURS_KEPT


def state_of(name: State | str) -> State:
    """
    Return the state of that name; Kue's ``inactive`` is ``waiting``.

    Raises:
        ValueError: There is no such state; the message lists those there are.
    """
    word = name.lower()
    try:
        return State.WAITING if word == INACTIVE else State(word)
    except ValueError:
        raise ValueError(
            f"state {name!r} is unknown; there are {', '.join(State)} "
            f"({INACTIVE} is another name for {State.WAITING})"
        ) from None


class Queries:
    """The methods of a queue that only read."""

    _connection: Connection

    async def now(self) -> int:
        """Return the store's clock, Unix ms: the source of all times of jobs."""
        return await self._connection.store.now()

    async def get(self, job_id: int) -> JobHandle[Any]:
        """
        Return job *job_id*, read just now.

        Raises:
            JobNotFound: There is no such job.
        """
        [job] = await self._connection.store.get([job_id])
        if job is None:
            raise JobNotFound(job_id)
        return self.handle(job)

    async def exists(self, job_id: int) -> bool:
        """Return whether there is such a job."""
        [job] = await self._connection.store.get([job_id])
        return job is not None

    def handle(self, job: Job) -> JobHandle[Any]:
        """Return the handle of a job that `page`, `range` or `find` returned."""
        return JobHandle(self._connection, job.id, job.type, job=job, is_new=False)

    async def logs(self, job_id: int, start: int = 0, stop: int = -1) -> list[LogLine]:
        """Return lines *start* to *stop* (inclusive) of a job's log."""
        return await self._connection.store.logs(job_id, start, stop)

    async def steps(self, job_id: int) -> JobSteps:
        """Return what a job did and waits for, and the signals sent to it."""
        return await self._connection.store.steps(job_id)

    # -- counting --------------------------------------------------------------

    async def counts_by_type(self) -> dict[str, dict[State, int]]:
        """Return how many jobs each type has in each state."""
        counted = await self._connection.store.count()
        return {
            type: {state: states.get(state, 0) for state in State}
            for type, states in counted.items()
        }

    async def counts(self, type: str | None = None) -> dict[State, int]:
        """Return how many jobs of *type* (None: of all types) each state has."""
        by_type = await self.counts_by_type()
        wanted = by_type if type is None else {type: by_type.get(type, {})}
        return {
            state: sum(states.get(state, 0) for states in wanted.values())
            for state in State
        }

    async def count(self, state: State | str, type: str | None = None) -> int:
        """Return how many jobs of *type* (None: of all types) are in *state*."""
        wanted = state_of(state)
        return (await self.counts(type))[wanted]

    async def inactive_count(self, type: str | None = None) -> int:
        """Return how many jobs wait to run."""
        return await self.count(State.WAITING, type)

    async def active_count(self, type: str | None = None) -> int:
        """Return how many jobs run."""
        return await self.count(State.ACTIVE, type)

    async def delayed_count(self, type: str | None = None) -> int:
        """Return how many jobs wait for their time."""
        return await self.count(State.DELAYED, type)

    async def complete_count(self, type: str | None = None) -> int:
        """Return how many jobs succeeded and are kept."""
        return await self.count(State.COMPLETE, type)

    async def failed_count(self, type: str | None = None) -> int:
        """Return how many jobs failed and are kept."""
        return await self.count(State.FAILED, type)

    async def types(self) -> list[str]:
        """Return every type that ever had a job, sorted."""
        return await self._connection.store.types()

    async def work_time(self, within: Duration | None = None) -> int:
        """
        Return how long all successful runs ever took, all together, in ms.

        With *within*, at most a day, it is the time of runs that ended in these last
        minutes, failed ones included.

        Raises:
            ValueError: *within* is longer than a day: add up `hours`.
        """
        store = self._connection.store
        if within is None:
            return await store.work_time()
        minutes = -(-milliseconds(within, field="within") // 60_000)
        if minutes > STATS_MINUTES:
            raise ValueError(
                f"within must be at most {STATS_MINUTES // 60} hours, not {within!r}; "
                "for more, add up run_ms of q.hours(…)"
            )
        minute = await store.now() // 60_000
        stats = await store.stats(minute - minutes, minute)
        return sum(stat.run_ms for stat in stats)

    async def stats(self, since: int, until: int) -> list[Stat]:
        """Return counters by minute and type, from minute *since* to *until*."""
        return await self._connection.store.stats(since, until)

    async def hours(self, since: int, until: int) -> list[Stat]:
        """Return counters by hour and type, from hour *since* to *until*."""
        return await self._connection.store.hours(since, until)

    async def facts(self) -> StoreFacts:
        """Return facts about the store: engine, version, size, and how fast it is."""
        return await self._connection.store.facts()

    async def stacks(self, worker: str) -> Stacks | None:
        """Return the stacks that a worker last stored by `order`, in these minutes."""
        return await self._connection.store.stacks(worker)

    async def errors(self, type: str | None = None, *, limit: int = 50) -> Errors:
        """
        Return the errors of jobs that are failed now, the most frequent first.

        Errors that differ only in numbers are one; `find` and `Selection` take their
        fingerprints.  The store keeps them: the cost does not grow with failed jobs.
        """
        return await self._connection.store.errors(type, limit=limit)

    async def workers(self) -> list[WorkerStatus]:
        """Return the workers the store knows of, by name."""
        return await self._connection.store.workers()

    # -- listing ---------------------------------------------------------------

    async def page(
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
        return await self._connection.store.page(
            PageRequest(
                None if state is None else state_of(state),
                type,
                limit=limit,
                cursor=cursor,
                skip=skip,
                descending=descending,
            )
        )

    async def range(
        self,
        first: int,
        last: int,
        order: Order = "asc",
        *,
        state: State | str | None = None,
        type: str | None = None,
    ) -> list[Job]:
        """
        Return jobs number *first* to *last*, both included, counted from 0 as Kue does.

        A *last* of -1 is the very last.

        Raises:
            ValueError: The numbers, the order or the state make no sense.
        """
        if order not in ("asc", "desc"):
            raise ValueError(f"order is 'asc' or 'desc', not {order!r}")
        wanted = _length(first, last)
        page = Page([], None)
        jobs: list[Job] = []
        while len(jobs) < wanted:
            page = await self.page(
                state,
                type,
                limit=min(wanted - len(jobs), MAX_BATCH),
                cursor=page.cursor,
                skip=0 if page.cursor else first,
                descending=order == "desc",
            )
            jobs += page.jobs
            if page.cursor is None:
                break
        return jobs

    async def find(
        self,
        *,
        state: State | str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        descending: bool = False,
        scan: int = MAX_SCAN,
        accept: Callable[[Job], bool] | None = None,
        **filters: Unpack[FilterOptions],
    ) -> Page:
        """
        Return jobs that match everything given.

        *text* is words in the data, the last error or the newest 100 lines of the log,
        in any order, ignoring case; ``'"two words"'`` is a phrase.  *error* is the same
        in the last error alone.  *worker* runs the job or ran it last; *fingerprint* is
        that of a group of `errors`; *data* maps paths to values, such as
        ``{"user.id": 42}``; *since* and *until* are creation times in Unix ms; *accept*
        is called with each job that matches all of that but the words of *text*.

        Looks at no more than *scan* jobs, and about 32 MiB of them: a page may be
        short, even empty, and still have a cursor.  `Page.looked_at` is how many.
        """
        return await self._connection.store.find(
            Filter(state=None if state is None else state_of(state), **filters),
            limit=limit,
            cursor=cursor,
            descending=descending,
            scan=scan,
            accept=accept,
        )

    async def paused(self) -> list[Pause]:
        """Return the pauses in force."""
        return await self._connection.store.paused()

    async def limits(self) -> dict[str, Limits]:
        """Return the limits in force, by type."""
        return await self._connection.store.limits()

    async def named_limits(self) -> dict[str, StoredLimit]:
        """Return the limits that jobs share by name, and their rules."""
        return await self._connection.store.named_limits()

    async def limit_use(self, name: str, *, limit: int = 100) -> list[LimitUse]:
        """Return how keys of a named limit are used, the most wanted first."""
        return await self._connection.store.limit_use(name, limit=limit)


def _length(first: int, last: int) -> int:
    """Return how many jobs a range has; the most there can be if it has no end."""
    if first < 0 or last < -1:
        raise ValueError(f"a range counts from 0; {first} to {last} is not a range")
    if last == -1:
        return sys.maxsize
    if last < first:
        raise ValueError(f"a range goes forward; {first} to {last} does not")
    return last - first + 1
