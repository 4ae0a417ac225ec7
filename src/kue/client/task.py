"""
Tasks: functions whose calls can be jobs.

``@q.task`` registers a function as the handler of a type and returns a `Task`.  Called,
it is still the function; its methods enqueue such calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, Unpack, cast

import msgspec

from kue.aio.loop_thread import refuse_on_a_loop
from kue.client.declared_limits import limited_by
from kue.client.deferred_calls import DeferredCalls, on_commit, on_response
from kue.client.flow import Signature
from kue.client.handle import JobHandle, added_handle
from kue.model.arguments import result_reader
from kue.worker.current_job import CURRENT
from kue.worker.handler_adapters import adapted, in_process, place_of, target_of

if TYPE_CHECKING:
    from kue.client.connection import Connection
    from kue.client.queue import Kue
    from kue.client.sync import SyncJobHandle
    from kue.model.arguments import Arguments
    from kue.model.job import Draft
    from kue.model.named_limits import TaskLimit
    from kue.model.options import JobOptions
    from kue.store.values import Added

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
T_co = TypeVar("T_co", covariant=True)


class TaskCalls(Generic[P, T_co]):
    """Makes jobs of calls, all with the same options."""

    def __init__(
        self,
        queue: Kue,
        name: str,
        arguments: Arguments,
        options: dict[str, Any],
        limits: tuple[TaskLimit, ...] = (),
    ) -> None:
        #: Its name, and the type of its jobs.
        self.name = name
        #: What its jobs count against, in addition to their ``limited_by``.
        self.limits = limits
        for limit in limits:
            arguments.check_path(limit.by, f"limit {limit.name!r}")
        self._queue = queue
        self._arguments = arguments
        # Used for every call, and an iterator can be read only once.
        self._options = {
            option: tuple(value) if isinstance(value, Iterator) else value
            for option, value in options.items()
        }
        # A call with unique=True gets its own key, and so cannot use the template.
        self._has_own_key = self._options.get("unique") is True
        valid = {"unique": "key"} if self._has_own_key else {}
        # Options that make no sense should fail here, not at the first call.
        self._template = queue._connection.template(name, self._options | valid)

    def options(self, **options: Unpack[JobOptions]) -> TaskCalls[P, T_co]:
        """
        Return the same task with other options for the calls made through it.

        Raises:
            TypeError: There is no such option; the message suggests the nearest.
            ValueError: One of them makes no sense.
        """
        merged = self._options | dict(options)
        return TaskCalls(self._queue, self.name, self._arguments, merged, self.limits)

    def draft(self, *args: P.args, **kwargs: P.kwargs) -> Draft:
        """
        Return a call as a value, for `enqueue_many`.

        Raises:
            TypeError: The function cannot be called like that.
            BadPayload, ValueError: An argument is not JSON, an option makes no sense.
        """
        return self._draft(self._arguments.bind(args, kwargs))

    def s(self, *args: Any, **kwargs: Any) -> Signature[T_co]:
        """
        Return a call that is not enqueued yet, for chains, groups and batches.

        In a chain the result of the job before it is its first argument, and *args*
        come after that.
        """
        return Signature(self, args, kwargs, takes_result=True)

    def si(self, *args: P.args, **kwargs: P.kwargs) -> Signature[T_co]:
        """Return a call that takes no result of the job before it."""
        return Signature(self, args, kwargs, takes_result=False)

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle[T_co]:
        """
        Store a call as a job; from async code.

        Raises:
            As `draft`, and what `Kue.enqueue` raises.
        """
        draft = self._draft(self._arguments.bind(args, kwargs))
        connection = self._queue._connection
        return self._handle(connection, draft, await connection.add(draft))

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> SyncJobHandle[T_co]:
        """
        Store a call as a job; from blocking code.

        Raises:
            RuntimeError: An event loop runs here: ``await task.enqueue(…)`` instead.
        """
        refuse_on_a_loop(
            f"await {self.name}.enqueue(…)", blocking=f"{self.name}.delay()"
        )
        sync = self._queue.sync
        return sync.held(sync.call(self._add, self.draft(*args, **kwargs)))

    async def enqueue_many(
        self, calls: Iterable[Mapping[str, Any] | Draft], *, durable: bool = False
    ) -> list[JobHandle[T_co]]:
        """
        Store many calls: the arguments of each as a mapping, or drafts of this task.

        They are sent in chunks of 500; handles come in the order given.
        """
        drafts = (self._call(call) for call in calls)
        handles = await self._queue.enqueue_many(drafts, durable=durable)
        reader = result_reader(self._arguments.returns)
        for handle in handles:
            handle._reader = reader
        return handles

    def after_commit(self, transaction: Any = None) -> DeferredCalls[P, T_co]:
        """
        Return the same task for calls that become jobs when *transaction* is committed.

        None if it is rolled back, and at once if there is no transaction::

            send.after_commit(session).delay(order.id)  # SQLAlchemy
            send.after_commit().delay(order.id)  # Django, the default database

        Args:
            transaction: A session of SQLAlchemy, also an async or a scoped one; the
                name of a database of Django; or anything with ``on_commit(function)``.

        Raises:
            TypeError: It is none of these.
        """
        return DeferredCalls(self._queue, self, on_commit(transaction))

    def after_response(self, target: Any) -> DeferredCalls[P, T_co]:
        """
        Return the same task for calls that become jobs when a response was sent.

        Args:
            target: BackgroundTasks of Starlette or FastAPI, or a response of Django.

        Raises:
            TypeError: It is neither.
        """
        return DeferredCalls(self._queue, self, on_response(target))

    async def _add(self, queue: Kue, draft: Draft) -> JobHandle[T_co]:
        connection = queue._connection
        return self._handle(connection, draft, await connection.add(draft))

    def _handle(
        self, connection: Connection, draft: Draft, added: Added
    ) -> JobHandle[T_co]:
        reader = result_reader(self._arguments.returns)
        return added_handle(connection, draft.type, added, reader)

    def _call(self, call: Mapping[str, Any] | Draft) -> Draft:
        if isinstance(call, Mapping):
            return self._draft(self._arguments.bind((), dict(call)))
        return call

    def link_draft(self, data: dict[str, Any], result: str | None) -> Draft:
        """Return a draft for a flow; the argument *result* is not known yet."""
        if result is not None and self._has_own_key:
            raise ValueError(
                f"{self.name} is unique by its arguments, and one of them is the "
                "result of another job; give a key: options(unique=…)"
            )
        draft = self._draft(data)
        if draft.on_conflict != "existing":
            raise ValueError(
                f"{self.name} cannot be part of a flow: it has debounce or "
                f"on_conflict={draft.on_conflict!r}"
            )
        return draft

    def _draft(self, data: dict[str, Any]) -> Draft:
        if not self._has_own_key and not self.limits:
            return self._template.draft(data)
        given = self._arguments.defaults | data
        options: dict[str, Any] = dict(self._options)
        if self._has_own_key:
            # The keys of a queue are shared by all of its tasks.
            task = self.name if options.get("queue") else ""
            options["unique"] = _key(given, task)
        if self.limits:
            more: dict[str, str] = options.get("limited_by") or {}
            options["limited_by"] = limited_by(self.limits, given) | more
        return self._queue.draft(self.name, data, **options)


class Task(TaskCalls[P, T_co], Generic[P, R_co, T_co]):
    """A function, and the jobs that are calls of it."""

    __name__: str

    def __init__(
        self,
        queue: Kue,
        function: Callable[..., R_co],
        name: str,
        arguments: Arguments,
        options: dict[str, Any],
        limits: tuple[TaskLimit, ...] = (),
    ) -> None:
        super().__init__(queue, name, arguments, options, limits)
        #: The function itself.
        self.function = function
        update_wrapper(cast("Callable[..., object]", self), function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """
        Call the function here and now.

        A function that takes the job gets the current one.

        Raises:
            RuntimeError: It takes the job, and there is none.
        """
        if self._arguments.job is None:
            return self.function(*args, **kwargs)
        active = CURRENT.get()
        if active is None:
            raise RuntimeError(
                f"{self.name} takes the job that it runs for, and no job runs here; "
                f"enqueue it, or call {self.name}.function with your own job"
            )
        call = self._arguments.bind(args, kwargs)
        return self.function(**call, **{self._arguments.job: active})

    def __repr__(self) -> str:
        return f"<Task {self.name!r}>"

    def run(self, active: Any) -> R_co:
        """
        Call the function with the data of a job.

        Raises:
            BadArguments: The data does not fit.
        """
        return self.function(**self._arguments.read(active.data, active))


def _key(data: dict[str, Any], task: str) -> str:
    """Return a short text that is the same for the same arguments of the *task*."""
    text = msgspec.json.encode(data, order="deterministic")
    return hashlib.sha256(task.encode() + text).hexdigest()[:32]


def handler_of(task: Task[..., Any, Any], where: str) -> Any:
    """Return what a worker calls with the run of a job of *task*."""
    match where:
        case "process":
            return in_process(target_of(task))
        case "loop" | "thread" if where == place_of(task.function):
            return adapted(task.function, task.run)
        case "loop":
            raise ValueError(
                f"{task.name} is a plain function, which would block the event loop; "
                "make it async, or leave execution out to run it in a thread"
            )
        case "thread":
            raise ValueError(
                f"{task.name} is a coroutine function, which needs no thread; "
                "leave execution out"
            )
    raise ValueError(f"execution is 'loop', 'thread' or 'process', not {where!r}")
