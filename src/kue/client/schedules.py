"""Schedules of a queue: declared in code, or added, paused and run at run time."""

from __future__ import annotations

import time
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from msgspec.structs import replace

from kue.client.declared_schedules import DeclaredSchedule, module_of, put_schedule
from kue.client.handle import JobHandle, added_handle
from kue.client.task import Task
from kue.model.errors import ScheduleNotFound
from kue.model.schedule_options import DeclaredOptions, ScheduleOptions, schedule_of
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from kue.client.connection import Connection
    from kue.client.queue import Kue
    from kue.client.registry import HandlerRegistry
    from kue.model.duration import Duration
    from kue.model.job import Draft, Job
    from kue.model.schedule import Schedule
    from kue.store.contract import Store
    from kue.worker.active_job import ActiveJob

P = ParamSpec("P")
T = TypeVar("T")
AnyTask = TypeVar("AnyTask", bound=Task[..., Any, Any])


class ScheduleDecorator(Protocol):
    """What ``@q.every(…)`` and ``@q.cron(…)`` do to a task, or to a function."""

    @overload
    def __call__(self, function: AnyTask, /) -> AnyTask: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ActiveJob, P], Coroutine[Any, Any, T]], /
    ) -> Task[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Task[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ActiveJob, P], T], /
    ) -> Task[P, T, T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> Task[P, T, T]: ...


class Schedules:
    """The methods of a queue for jobs that recur."""

    _connection: Connection
    _handlers: HandlerRegistry

    # -- declared in code ------------------------------------------------------

    def every(
        self,
        interval: Duration,
        /,
        *,
        name: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        **options: Unpack[DeclaredOptions],
    ) -> ScheduleDecorator:
        """
        Declare that a task runs each *interval*, first one interval after it is known.

        For a task, or for a function, which becomes one::

            @q.every("10m", overlap="skip")
            async def sweep() -> None: ...

        A worker that starts writes what its program declares into the store, and logs
        what it added, changed and removed.

        Args:
            name: That of the schedule; else that of the task.
            arguments: What the task is called with.

        Keyword Args:
            tz, start, end: A time zone; the first time; the end, an aware datetime.
            jitter: Fire up to this much later, spread evenly.
            missed: What becomes of times that nobody fired: "once" (the default) adds
                one job for all of them, "skip" none, "all" one each.
            overlap: While an earlier job is unfinished: "allow" (the default) adds
                another, "skip" none, "queue-one" one if no other is to start.

        Raises:
            TypeError: The task cannot be called with *arguments*.
            ValueError: Two schedules have one name, or an option makes no sense.
        """
        return self._declaring(name, arguments, {"every": interval}, options)

    def cron(
        self,
        expression: str,
        /,
        *,
        name: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        **options: Unpack[DeclaredOptions],
    ) -> ScheduleDecorator:
        """
        Declare that a task runs when a cron expression matches, in a time zone.

        With minute, hour, day of month, month and day of week::

            @q.cron("0 9 * * mon-fri", tz="Europe/Berlin")
            async def digest() -> None: ...

        Otherwise as `every`.  The time zone is UTC by default.
        """
        return self._declaring(name, arguments, {"cron": expression}, options)

    def _declaring(
        self,
        name: str | None,
        arguments: Mapping[str, Any] | None,
        timing: ScheduleOptions,
        options: DeclaredOptions,
    ) -> ScheduleDecorator:
        merged = cast("ScheduleOptions", {**options, **timing})
        declare = partial(self._declare, name, arguments or {}, merged)
        return cast("ScheduleDecorator", declare)

    def _declare(
        self,
        name: str | None,
        arguments: Mapping[str, Any],
        options: ScheduleOptions,
        function: Callable[..., Any],
    ) -> Task[..., Any, Any]:
        queue = cast("Kue", self)
        task = function if isinstance(function, Task) else queue.task(function)
        declared = DeclaredSchedule(
            name or task.name,
            task.draft(**arguments),
            module_of(task.function),
            options,
        )
        # Options that make no sense fail here, not when a worker starts.
        schedule_of(
            declared.name, declared.draft, now=time.time_ns() // 10**6, **options
        )
        self._handlers.declare(declared)
        return task

    # -- at run time -----------------------------------------------------------

    async def schedule(
        self, name: str, draft: Draft, **options: Unpack[ScheduleOptions]
    ) -> Schedule:
        """
        Add a job again and again, or change the schedule of that name.

        The job is a draft, of a task or of any type::

            await q.schedule("eu", report.draft(region="eu"), cron="0 3 * * *")
            await q.schedule("ping", q.draft("ping"), every="30s")
            await q.schedule("launch", announce.draft("hi"), at=datetime(…))

        Give one of *every*, *cron* and *at* (an aware datetime; once); the others are
        as for `every`.  A changed schedule keeps its pause, its last ticks and, if its
        times are the same, its next one.

        Raises:
            ValueError, TypeError: An option makes no sense; or the schedule is
                declared in code.
            BadPayload: The data is larger than 16 KiB.
        """
        store = self._connection.store
        for known in await store.schedules(name):
            _check_not_declared(known)
        declared = DeclaredSchedule(name, draft, "", options)
        schedule, _ = await put_schedule(store, declared)
        return schedule

    async def unschedule(self, name: str) -> bool:
        """
        Delete a schedule; return whether there was one.

        Its jobs stay.  One that is declared in code comes back when a worker starts:
        pause it instead.
        """
        return await self._connection.store.unschedule(name)

    async def schedules(self) -> list[Schedule]:
        """Return all schedules by name, each with its last ticks and their outcomes."""
        return await self._settled(await self._connection.store.schedules())

    async def get_schedule(self, name: str) -> Schedule:
        """
        Return a schedule, with its last ticks and their outcomes.

        Raises:
            ScheduleNotFound: There is none of that name.
        """
        found = await self._settled(await self._connection.store.schedules(name))
        if not found:
            raise ScheduleNotFound(name)
        return found[0]

    async def pause_schedule(self, name: str) -> Schedule:
        """
        Let a schedule fire no more until it is resumed.

        Raises:
            ScheduleNotFound: There is none of that name.
        """
        return await self._change(name, lambda known, _: replace(known, paused=True))

    async def resume_schedule(self, name: str) -> Schedule:
        """
        End the pause of a schedule; what it missed is not made up for.

        Raises:
            ScheduleNotFound: There is none of that name.
        """
        return await self._change(
            name, lambda known, now: known.resumed(now) if known.paused else known
        )

    async def run_schedule(self, name: str) -> JobHandle[Any]:
        """
        Add the job of a schedule now, in addition to its times; also if it is paused.

        Raises:
            ScheduleNotFound: There is none of that name.
        """
        connection = self._connection
        for schedule in await connection.store.schedules(name):
            added = await connection.store.fire(name)
            if added is not None:
                return added_handle(connection, schedule.draft.type, added)
        raise ScheduleNotFound(name)

    async def _change(
        self, name: str, change: Callable[[Schedule, int], Schedule]
    ) -> Schedule:
        """Change a schedule as it is now, even if others change it at the same time."""
        store = self._connection.store
        while found := await store.schedules(name):
            known = found[0]
            changed = change(known, await store.now())
            if changed == known or await store.schedule(changed, expected=known):
                return changed
        raise ScheduleNotFound(name)

    async def _settled(self, schedules: list[Schedule]) -> list[Schedule]:
        """Return *schedules* with the outcomes of jobs that have ended since."""
        ids = [job_id for one in schedules for job_id in one.open_jobs]
        jobs = await _jobs(self._connection.store, ids)
        return [one.settled(jobs) for one in schedules]


async def _jobs(store: Store, ids: list[int]) -> dict[int, Job | None]:
    found: dict[int, Job | None] = {}
    for start in range(0, len(ids), MAX_BATCH):
        part = ids[start : start + MAX_BATCH]
        found.update(zip(part, await store.get(part), strict=True))
    return found


def _check_not_declared(schedule: Schedule) -> None:
    if schedule.declared_by:
        raise ValueError(
            f"schedule {schedule.name!r} is declared in code, by "
            f"{schedule.declared_by}; change it there, or choose another name"
        )
