"""Contexts on an event loop."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from kue.aio.thread_calls import running
from kue.runtime.context import Context, protected_tasks
from kue.runtime.errors import RuntimeClosed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from concurrent.futures import Future

    from kue.bus import Handler
    from kue.runtime.event_loops import LoopHost
    from kue.runtime.runtime import Runtime

T = TypeVar("T")


class LoopContext(Context):
    """A context on an event loop: handlers interleave when they await."""

    def __init__(self, runtime: Runtime, host: LoopHost, **rest: Any) -> None:
        super().__init__(runtime, host, **rest)
        self._tasks: set[asyncio.Task[Any]] = set()

    def queue(
        self,
        function: Callable[[], object],
        then: Callable[[], object] | None = None,
    ) -> None:
        self.check()
        loop = self.host.loop
        call = loop.call_soon if running() is loop else loop.call_soon_threadsafe
        try:
            call(self._invoke, function, then, context=self.variables())
        except RuntimeError:
            raise RuntimeClosed(f"the loop of {self!r} is closed") from None

    def _invoke(
        self, function: Callable[[], object], then: Callable[[], object] | None
    ) -> None:
        answer = None
        try:
            answer = function()
        except Exception as exc:
            self.report(exc)
        if inspect.isawaitable(answer):
            self._await(answer, then)
        elif then is not None:
            then()

    def _await(
        self, answer: Awaitable[object], then: Callable[[], object] | None
    ) -> None:
        task = self.host.loop.create_task(self._finish(answer))
        self.keep(task)
        if inspect.iscoroutine(answer):
            # In case it was cancelled before it began; else this does nothing.
            task.add_done_callback(lambda _: answer.close())
        if then is not None:
            task.add_done_callback(lambda _: then())

    async def _finish(self, answer: Awaitable[object]) -> None:
        try:
            await answer
        except Exception as exc:
            self.report(exc)

    def handler(self, function: Handler) -> Handler:
        # The consumer calls it in the same loop.
        return function

    def _begin(self, function: Callable[[], Awaitable[T]]) -> Future[T]:
        self.check()
        return self._submit(self._complete(function))

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            return self.variables().run(
                asyncio.run_coroutine_threadsafe, work, self.host.loop
            )
        except RuntimeError:
            work.close()
            raise RuntimeClosed(f"the loop of {self!r} is closed") from None

    def _cancel(self, future: Future[Any]) -> None:
        # That cancels the task, too.
        future.cancel()

    async def _complete(self, function: Callable[[], Awaitable[T]]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self.keep(task)
        return await function()

    def keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._drop)
        if self.deployment is None:
            # Nothing else tracks it: it ends with the runtime.
            self._hooks.add(self._end_tasks_in_loop)

    def _drop(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if self.deployment is None and not self._tasks:
            self._hooks.remove(self._end_tasks_in_loop)

    async def close(self) -> None:
        await self.call(self._end)

    async def _end(self) -> None:
        await self._hooks.close()
        self._is_closed = True
        await self._end_tasks()

    async def _end_tasks_in_loop(self) -> None:
        await asyncio.wrap_future(self._submit(self._end_tasks()))

    async def _end_tasks(self) -> None:
        rest = self._tasks - {asyncio.current_task()} - protected_tasks()
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest)
