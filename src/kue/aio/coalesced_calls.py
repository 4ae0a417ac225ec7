"""Coalescing: what is added while one call is under way goes with the next call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kue.aio.tasks import cancel_all

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context


class CoalescedCalls:
    """
    Does *work* in a task while there is any: calls, one after the other.

    *work* collects what waits for each call, and returns when nothing waits.

    Args:
        limit: How many tasks may do it at once.
        context: The context variables of the task; by default those of the caller.
    """

    def __init__(
        self,
        work: Callable[..., Coroutine[Any, Any, None]],
        name: str,
        *,
        limit: int = 1,
        context: Context | None = None,
    ) -> None:
        self._work = work
        self._name = name
        self._limit = limit
        self._context = context
        #: Empty when nothing is under way.
        self.tasks: set[asyncio.Task[None] | None] = set()

    def start(self, *args: Any) -> None:
        """Call *work* with *args*, unless enough tasks do it already."""
        if len(self.tasks) < self._limit:
            task = asyncio.create_task(
                self._run(args), name=self._name, context=self._context
            )
            self.tasks.add(task)

    async def finish(self) -> None:
        """Return once nothing is under way."""
        while tasks := [task for task in self.tasks if task and not task.done()]:
            await asyncio.wait(tasks)
        # One that was cancelled before it began could not remove itself.
        self.tasks.clear()

    async def cancel(self) -> None:
        await cancel_all(self.tasks)

    async def _run(self, args: tuple[Any, ...]) -> None:
        try:
            await self._work(*args)
        finally:
            # Here, not in a callback: what is added next must start another task.
            self.tasks.discard(asyncio.current_task())
