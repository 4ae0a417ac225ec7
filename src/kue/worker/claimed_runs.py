"""
Runs that were claimed together, and the tasks they run in.

Many handlers finish without ever waiting, and creating a task took longer than such a
run.  So one task runs them one after the other; once a run does wait, each run that has
not begun gets its own task.  No run sees that another ran before it: a task that a run
left changed (a context variable, a cancellation) is not used again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

T = TypeVar("T")


class ClaimedRuns(Generic[T]):
    """Calls *run_one* with each of *runs*, concurrently if one of them waits."""

    def __init__(
        self, runs: Iterable[T], run_one: Callable[[T], Coroutine[Any, Any, None]]
    ) -> None:
        self._left = deque(runs)
        self._run_one = run_one
        self._is_split = False
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        self._loop.create_task(self._go())

    async def _go(self) -> None:
        # Called as soon as we wait, or are done.
        self._loop.call_soon(self._split)
        task = asyncio.current_task()
        context = copy_context()
        while self._left:
            await self._run_one(self._left.popleft())
            if self._is_split or copy_context() != context:
                return
            if task is None or task.cancelling():
                return

    def _split(self) -> None:
        self._is_split = True
        for run in self._left:
            self._loop.create_task(self._run_one(run))
        self._left.clear()
