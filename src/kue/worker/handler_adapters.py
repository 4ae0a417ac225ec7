"""
Handlers as users write them, converted to the one form that lanes call.

Whatever it is (coroutine or plain function, one that takes the job, Kue's ``done``, or
arguments), it becomes a coroutine function that takes the run.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from kue.aio.callbacks import is_async
from kue.model.errors import SoftTimeout
from kue.model.payload import JSON
from kue.worker.generators import (
    is_async_generator,
    is_generator,
    send_all,
    send_each,
)
from kue.worker.pools.child_names import MAIN, module_name
from kue.worker.pools.processes import FunctionTarget
from kue.worker.pools.threads import Interrupted

if TYPE_CHECKING:
    from kue.worker.active_run import ActiveRun

Execution: TypeAlias = Literal["loop", "thread", "process"]
#: Called with the run, or in a child with the job.
Call: TypeAlias = Callable[[Any], Any]
RunHandler: TypeAlias = Callable[["ActiveRun"], Awaitable[JSON]]


def place_of(function: Any) -> Execution:
    """Return where *function* runs by default: async ones on the loop."""
    is_on_loop = is_async(function) or is_async_generator(function)
    return "loop" if is_on_loop else "thread"


def adapted(function: Any, call: Call) -> RunHandler:
    """Have *call*, which calls *function*, run in its place; generators send chunks."""
    if is_async_generator(function):
        return lambda run: send_each(run, call(run))
    if is_async(function):
        return call
    if is_generator(function):
        return in_thread(lambda run: send_all(run, call(run)))
    return in_thread(call)


def in_thread(call: Call) -> RunHandler:
    """Run a plain function in a thread."""

    async def handle(run: ActiveRun) -> JSON:
        function = functools.partial(call, run)
        result: JSON = await run.services.threads.call(function, _interruption(run))
        return result

    return handle


def _interruption(run: ActiveRun) -> Callable[[], type[BaseException]]:
    """Return what a thread raises when its call is cancelled."""
    return lambda: SoftTimeout if run.is_only_asked else Interrupted


def in_process(target: FunctionTarget) -> RunHandler:
    """Run the function that *target* names in a child process."""

    async def handle(run: ActiveRun) -> JSON:
        run.leave_asking_to_child()
        return await run.services.children.call(target, run)

    return handle


def with_done(handler: Callable[..., Any], *, takes_ctx: bool = False) -> RunHandler:
    """
    Run a handler of Kue's form, which calling *done* ends.

    That is ``handler(job, done)``, or with *takes_ctx* ``handler(job, ctx, done)``.
    """

    async def handle(run: ActiveRun) -> JSON:
        loop = asyncio.get_running_loop()
        done = _Done(loop)
        given = (run, LaneControl(run, loop), done) if takes_ctx else (run, done)
        if is_async(handler):
            calling: Awaitable[Any] = handler(*given)
        else:
            function = functools.partial(handler, *given)
            calling = run.services.threads.call(function, _interruption(run))
        await calling
        return await done.answer

    return handle


def arguments_taken(handler: Callable[..., Any]) -> int:
    """
    Return how many arguments *handler* takes: the job; it and ``done``; or all three.

    Raises:
        TypeError: It takes none, or requires others.
    """
    try:
        parameters = [*inspect.signature(handler).parameters.values()]
    except (TypeError, ValueError):
        return 1
    empty = inspect.Parameter.empty
    required = [item for item in parameters if item.default is empty]
    number = sum(item.kind in _POSITIONAL for item in required)
    takes_any = any(item.kind in (*_POSITIONAL, _REST) for item in parameters)
    names = [item.name for item in required if item.kind is _KEYWORD]
    if number > len(KUES_ARGUMENTS) or names or not takes_any:
        shown = ", ".join(map(str, parameters))
        raise TypeError(
            f"a handler is called with (job), (job, done) or (job, ctx, done); "
            f"{handler!r} takes ({shown})"
        )
    return max(1, number)


def target_of(function: Any) -> FunctionTarget:
    """
    Return where a child finds *function*.

    Raises:
        ValueError: It is not at the top of a module, where a child could find it.
    """
    module, name = function.__module__, function.__qualname__
    if "<" in name:
        raise ValueError(
            f"{name} cannot run in a child process: move it to the top of a "
            "module, where that process can import it"
        )
    module = module_name(module)
    is_file = module == MAIN
    file = getattr(sys.modules[MAIN], "__file__", None) if is_file else None
    return FunctionTarget(module, name, file)


class _Done:
    """
    Kue's callback: ``done()``, ``done(error)`` or ``done(None, result)``.

    From any thread; the first call counts.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.answer: asyncio.Future[JSON] = loop.create_future()

    def __call__(self, error: object = None, result: JSON = None) -> None:
        self._loop.call_soon_threadsafe(self._set, error, result)

    def _set(self, error: object, result: JSON) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(result)
        elif isinstance(error, BaseException):
            self.answer.set_exception(error)
        else:
            self.answer.set_exception(HandlerError(str(error)))


class HandlerError(Exception):
    """An error that a handler passed to ``done`` and that is not an exception."""


class LaneControl:
    """
    Kue's ``ctx``: pauses the jobs of this type in this worker; other workers go on.

    From any thread.  Running jobs go on.  The pause ends with the worker; `Kue.pause`
    pauses a type everywhere and stays in force.
    """

    def __init__(self, run: ActiveRun, loop: asyncio.AbstractEventLoop) -> None:
        self._lane = run.lane
        self._loop = loop

    def pause(self) -> None:
        """Claim no more jobs until `resume`, of this or any other run of the type."""
        self._loop.call_soon_threadsafe(self._lane.pause, _BY_HANDLER)

    def resume(self) -> None:
        self._loop.call_soon_threadsafe(self._lane.resume, _BY_HANDLER)


_BY_HANDLER = "handler"
#: What Kue calls a handler with.
KUES_ARGUMENTS = ("job", "ctx", "done")
_REST = inspect.Parameter.VAR_POSITIONAL
_KEYWORD = inspect.Parameter.KEYWORD_ONLY
_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
