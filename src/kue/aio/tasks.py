"""Background tasks: started together, cancelled together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable


async def cancel_all(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    """Cancel *tasks* and wait until they have ended."""
    found = [task for task in tasks if task is not None]
    for task in found:
        task.cancel()
    await asyncio.gather(*found, return_exceptions=True)


class BackgroundTasks:
    """Background tasks, which live no longer than their owner."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Cancel what is left and wait until it is gone."""
        await cancel_all(tuple(self._tasks))
