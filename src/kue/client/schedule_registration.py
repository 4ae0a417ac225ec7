"""Registration of schedules in code: ``@q.every`` and ``@q.cron``."""

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

from kue.client.declared_schedules import DeclaredSchedule, module_of
from kue.client.task import Task
from kue.model.schedule_options import DeclaredOptions, ScheduleOptions, schedule_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from kue.client.queue import Kue
    from kue.client.registry import HandlerRegistry
    from kue.model.duration import Duration
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


class ScheduleRegistration:
    """The methods of a queue that declare schedules."""

    _handlers: HandlerRegistry

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
