"""Registration of tasks, handlers, middleware, resources and hooks with a queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence
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

from kue.client.alert_registration import AlertRegistration
from kue.client.declared_schedules import module_of
from kue.client.hooks import FailoverHook, FailureHook, Hook, Hooks, Middleware
from kue.client.ready_middleware import for_errors
from kue.client.registry import HandlerRegistry, HandlerSettings
from kue.client.schedule_registration import ScheduleRegistration
from kue.client.task import Task, handler_of
from kue.client.worker_resource import Check, Resource
from kue.model.arguments import Arguments
from kue.model.backoff import exponential
from kue.model.options import JobOptions
from kue.worker.active_job import ActiveJob
from kue.worker.handler_adapters import (
    Execution,
    adapted,
    arguments_taken,
    place_of,
    with_done,
)

if TYPE_CHECKING:
    from kue.client.exception_kinds import ExceptionKinds
    from kue.client.queue import Kue
    from kue.model.named_limits import TaskLimit

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
H = TypeVar("H", bound=Callable[..., Any])
M = TypeVar("M", bound=Middleware)
Startup = TypeVar("Startup", bound=Hook)
Failure = TypeVar("Failure", bound=FailureHook)
Switched = TypeVar("Switched", bound=FailoverHook)

#: Tasks are retried by default; jobs of `create_job` are not.
TASK_DEFAULTS: dict[str, Any] = {
    "attempts": 3,
    "backoff": exponential("1s", max="1h", jitter=0.5),
}


class TaskOptions(JobOptions, total=False):
    """What ``@q.task(…)`` takes."""

    name: str | None
    execution: Execution | None
    concurrency: int | None
    weight: int
    middleware: Sequence[Middleware]
    fail_on: ExceptionKinds
    retry_on: ExceptionKinds
    not_counted: ExceptionKinds
    on_failure: FailureHook | None
    dead_letter: str | None
    uses: Sequence[Resource[Any]]
    limits: Sequence[TaskLimit]


class TaskDecorator(Protocol):
    """What ``@q.task(…)`` does to a function."""

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
        self, function: Callable[Concatenate[ActiveJob, P], AsyncIterator[T]], /
    ) -> Task[P, AsyncIterator[T], None]: ...
    @overload
    def __call__(
        self, function: Callable[P, AsyncIterator[T]], /
    ) -> Task[P, AsyncIterator[T], None]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ActiveJob, P], Generator[T, Any, R]], /
    ) -> Task[P, Generator[T, Any, R], R]: ...
    @overload
    def __call__(
        self, function: Callable[P, Generator[T, Any, R]], /
    ) -> Task[P, Generator[T, Any, R], R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[ActiveJob, P], T], /
    ) -> Task[P, T, T]: ...
    @overload
    def __call__(self, function: Callable[P, T], /) -> Task[P, T, T]: ...


class ResourceDecorator(Protocol):
    """What ``@q.resource(…)`` does to a function."""

    def __call__(self, open_: Callable[[], AsyncIterator[T]], /) -> Resource[T]: ...


class Registration(ScheduleRegistration, AlertRegistration):
    """The methods of a queue that register handlers, and what is around them."""

    _handlers: HandlerRegistry
    _hooks: Hooks

    # -- tasks -----------------------------------------------------------------

    @overload
    def task(
        self, function: Callable[Concatenate[ActiveJob, P], Coroutine[Any, Any, T]], /
    ) -> Task[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def task(
        self, function: Callable[P, Coroutine[Any, Any, T]], /
    ) -> Task[P, Coroutine[Any, Any, T], T]: ...
    @overload
    def task(
        self, function: Callable[Concatenate[ActiveJob, P], AsyncIterator[T]], /
    ) -> Task[P, AsyncIterator[T], None]: ...
    @overload
    def task(
        self, function: Callable[P, AsyncIterator[T]], /
    ) -> Task[P, AsyncIterator[T], None]: ...
    @overload
    def task(
        self, function: Callable[Concatenate[ActiveJob, P], Generator[T, Any, R]], /
    ) -> Task[P, Generator[T, Any, R], R]: ...
    @overload
    def task(
        self, function: Callable[P, Generator[T, Any, R]], /
    ) -> Task[P, Generator[T, Any, R], R]: ...
    @overload
    def task(
        self, function: Callable[Concatenate[ActiveJob, P], T], /
    ) -> Task[P, T, T]: ...
    @overload
    def task(self, function: Callable[P, T], /) -> Task[P, T, T]: ...
    @overload
    def task(self, /, **options: Unpack[TaskOptions]) -> TaskDecorator: ...
    def task(
        self,
        function: Callable[..., Any] | None = None,
        /,
        **options: Unpack[TaskOptions],
    ) -> Any:
        """
        Make a task of a function: its calls can be jobs, and workers run them.

        Async functions run on the worker's event loop, plain ones in a thread, and
        either in its own process with ``execution="process"``.  What a generator yields
        is the stream of the job, see `kue.JobHandle.stream`.  Jobs are tried 3
        times with exponential backoff unless the options differ::

            @q.task(attempts=5, timeout="30s", tags=["mail"])
            async def send_email(to: str, title: str) -> dict: ...

            await send_email.enqueue(to="a@b.c", title="hi")

        A first parameter of type `ActiveJob` (or named ``job``) gets the job.

        Other options are defaults for its jobs; a call may override them.

        Keyword Args:
            name: The type of its jobs; else the name of the function.
            concurrency: How many at once in one worker.
            weight: Its share of a worker's slots when there are not enough.
            middleware: Around its runs, inside the queue's own middleware.
            fail_on: Exceptions that fail a job at once; see `kue.fail_on`.
            retry_on: The only exceptions after which a job is tried again; see
                `kue.retry_on`.
            not_counted: Exceptions that spend no attempt; see `kue.not_counted`.
            on_failure: Called with job and error when a job failed for good, before
                the hooks of the queue; see `on_failure`.
            dead_letter: Forward failed jobs to this type; "" for nowhere, whatever
                the queue's own setting is.
            uses: Resources that must be open, and fresh, when it runs.
            limits: Rates and concurrency of its jobs in all workers together, by key
                or shared with other tasks; see `kue.rate` and `kue.concurrency`.

        Raises:
            TypeError: A parameter cannot be made from JSON.
            ValueError: The type has a handler, or an option makes no sense.
        """
        make = partial(self._task, **options)
        return make if function is None else make(function)

    def _task(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        execution: Execution | None = None,
        concurrency: int | None = None,
        weight: int = 1,
        middleware: Sequence[Middleware] = (),
        fail_on: ExceptionKinds = (),
        retry_on: ExceptionKinds = (),
        not_counted: ExceptionKinds = (),
        on_failure: FailureHook | None = None,
        dead_letter: str | None = None,
        uses: Sequence[Resource[Any]] = (),
        limits: Sequence[TaskLimit] = (),
        **options: Any,
    ) -> Task[..., Any, Any]:
        queue = cast("Kue", self)
        arguments = Arguments(function, ActiveJob)
        type = name or function.__name__
        named = tuple(limit.named(type) for limit in limits)
        task: Task[..., Any, Any] = Task(
            queue, function, type, arguments, TASK_DEFAULTS | options, named
        )
        for limit in named:
            self._handlers.limits.add(limit, type)
        self._handlers.modules.add(module_of(function))
        where = execution or place_of(function)
        if where == "process" and uses:
            raise ValueError(
                f"{task.name} runs in its own process, where the worker's "
                "resources are not open; let the function open what it needs"
            )
        self._handlers.add(
            HandlerSettings(
                type=type,
                handler=handler_of(task, where),
                execution=where,
                slots=concurrency,
                weight=weight,
                middleware=(*middleware, *for_errors(fail_on, retry_on, not_counted)),
                uses=tuple(uses),
                queue=options.get("queue"),
                on_failure=() if on_failure is None else (on_failure,),
                dead_letter=dead_letter,
            )
        )
        return task

    # -- handlers --------------------------------------------------------------

    @overload
    def process(self, type: str, n: H, /) -> H: ...
    @overload
    def process(self, type: str, n: int, handler: H, /) -> H: ...
    @overload
    def process(self, type: str, n: int = 1, /) -> Callable[[H], H]: ...
    def process(
        self,
        type: str,
        n: int | Callable[..., Any] = 1,
        handler: Callable[..., Any] | None = None,
        /,
    ) -> Any:
        """
        Handle jobs of *type* with ``handler(job)``, up to *n* at once.

        A coroutine function runs on the event loop, a plain one in a thread.  Kue's
        forms ``handler(job, done)`` and ``handler(job, ctx, done)`` work, too: they end
        with ``done(error, result)``, and ``ctx.pause()`` and ``ctx.resume()`` are for
        jobs of the type in this worker.  This only registers the handler; `run` and
        `work` call it.  Also a decorator::

            @q.process("email", 20)
            async def send(job): ...

        Raises:
            ValueError: *n* is not positive, or the type has a handler.
            TypeError: The handler cannot be called with any of these.
        """
        return self._processing(type, n, handler, is_blocking=False)

    @overload
    def process_blocking(self, type: str, n: H, /) -> H: ...
    @overload
    def process_blocking(self, type: str, n: int, handler: H, /) -> H: ...
    @overload
    def process_blocking(self, type: str, n: int = 1, /) -> Callable[[H], H]: ...
    def process_blocking(
        self,
        type: str,
        n: int | Callable[..., Any] = 1,
        handler: Callable[..., Any] | None = None,
        /,
    ) -> Any:
        """
        Handle jobs of *type* with a plain function, in up to *n* threads.

        Raises:
            ValueError: *n* is not positive, or the type has a handler.
            TypeError: The handler is a coroutine function: `process` runs those.
        """
        return self._processing(type, n, handler, is_blocking=True)

    def _processing(
        self,
        type: str,
        n: int | Callable[..., Any],
        handler: Callable[..., Any] | None,
        *,
        is_blocking: bool,
    ) -> Any:
        if not isinstance(n, int):
            return self._process(type, 1, is_blocking, n)
        add = partial(self._process, type, n, is_blocking)
        return add if handler is None else add(handler)

    def _process(self, type: str, n: int, is_blocking: bool, handler: H) -> H:
        if not callable(handler):
            raise TypeError(
                f"the handler of {type!r} must be a function that takes the job, "
                f"not {handler!r}"
            )
        where = place_of(handler)
        if is_blocking and where == "loop":
            raise TypeError(
                f"{handler!r} is a coroutine function, which never blocks; "
                f"use process({type!r}, …)"
            )
        self._handlers.modules.add(module_of(handler))
        number = arguments_taken(handler)
        run = (
            with_done(handler, takes_ctx=number > 2)
            if number > 1
            else adapted(handler, handler)
        )
        self._handlers.add(
            HandlerSettings(type=type, handler=run, execution=where, slots=n)
        )
        return handler

    # -- middleware, resources, hooks ------------------------------------------

    def middleware(self, middleware: M) -> M:
        """
        Put ``async def m(job, call_next)`` around every run, inside earlier ones.

        A decorator; it returns its argument.
        """
        self._handlers.middleware.append(middleware)
        return middleware

    @overload
    def resource(self, open_: Callable[[], AsyncIterator[T]], /) -> Resource[T]: ...
    @overload
    def resource(self, /, *, check: Check[Any] | None = None) -> ResourceDecorator: ...
    def resource(
        self,
        open_: Callable[[], AsyncIterator[Any]] | None = None,
        /,
        *,
        check: Check[Any] | None = None,
    ) -> Any:
        """
        Register a resource, which a worker opens once and its jobs share.

        Opened before the first run of a task with ``uses=[it]``, closed when the
        worker stops.  Before each such run *check* is called with it, and it is opened
        again when that raises or returns False: a database that hung up overnight fails
        no job::

            @q.resource(check=lambda pool: pool.execute("select 1"))
            async def database():
                pool = await connect()
                yield pool
                await pool.close()

            @q.task(uses=[database])
            async def report(): await database.value.execute(…)
        """
        if open_ is None:
            return partial(self._resource, check=check)
        return self._resource(open_, check=check)

    def _resource(
        self, open_: Callable[[], AsyncIterator[T]], *, check: Check[T] | None
    ) -> Resource[T]:
        resource = Resource(open_, check)
        self._handlers.resources.append(resource)
        return resource

    def on_startup(self, hook: Startup) -> Startup:
        """Call *hook* when a worker starts, before its first job."""
        self._hooks.startup.append(hook)
        return hook

    def on_shutdown(self, hook: Startup) -> Startup:
        """Call *hook* when a worker has stopped, after its last job."""
        self._hooks.shutdown.append(hook)
        return hook

    def on_failure(self, hook: Failure) -> Failure:
        """
        Call ``hook(job, error)`` when a job of this program's types failed for good.

        Whatever the cause (an exception, a timeout, its ttl, it expired, its worker was
        lost), and whichever process noticed: each failure is one call, in one of the
        workers that have the hook.  The call is a job of the type ``kue.failure``, so
        it survives crashes, and a hook that raises is called again, up to 5 times.
        """
        self._hooks.failure.append(hook)
        return hook

    def on_failover(self, hook: Switched) -> Switched:
        """
        Call ``hook(switch)`` when a fail-over connection adds jobs to another store.

        Called in every process that adds jobs, with the names of the connections before
        and now, and the reason; also when an earlier one is back.
        """
        self._hooks.failover.append(hook)
        return hook
