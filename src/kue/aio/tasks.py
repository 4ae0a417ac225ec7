"""Background tasks: started together, cancelled together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterable


async def cancel_all(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancel *tasks* and wait until they have ended."""
    found = [task for task in tasks if task is not None]
    for task in found:
        task.cancel()
    await asyncio.gather(*found, return_exceptions=True)


async def wait_for_first(
    *works: Awaitable[object], timeout: float | None = None
) -> None:
    """
    Wait until one of *works* has ended, for *timeout* seconds at most.

    Of the others, coroutines are cancelled, and tasks of the caller go on.
    """
    tasks = {asyncio.ensure_future(work) for work in works}
    try:
        await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks.difference(works):
            task.cancel()


class BackgroundTasks:
    """Background tasks, which live no longer than their owner."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def finish(self) -> None:
        """Return once all have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """Cancel what is left, without waiting."""
        for task in tuple(self._tasks):
            task.cancel()

    async def close(self) -> None:
        """Cancel what is left and wait until it is gone."""
        await cancel_all(tuple(self._tasks))
