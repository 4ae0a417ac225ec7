"""
Resources that a worker opens once and its jobs share: a database pool, a browser …

The function is an async generator that yields the resource; what comes after the yield
closes it.  Before a run that uses it, the resource is checked, and opened again when
it is stale.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kue.aio.callbacks import awaited

if TYPE_CHECKING:
    from kue.client.hooks import CallNext
    from kue.model.payload import JSON
    from kue.worker.active_job import ActiveJob

logger = logging.getLogger(__name__)

T = TypeVar("T")
Open = Callable[[], AsyncIterator[T]]
#: Returns False, or raises, when the resource went stale; may be a coroutine function.
Check = Callable[[T], Awaitable[Any] | Any]


class Resource(Generic[T]):
    """Opened by the first run that uses it, closed when the worker stops."""

    def __init__(self, open_: Open[T], check: Check[T] | None = None) -> None:
        self.name = getattr(open_, "__name__", repr(open_))
        self._open = asynccontextmanager(open_)
        self._check = check
        self._lock = asyncio.Lock()
        self._context: AbstractAsyncContextManager[T] | None = None
        self._value: T | None = None

    def __repr__(self) -> str:
        return f"<Resource {self.name}>"

    @property
    def value(self) -> T:
        """
        The resource itself, for tasks with ``uses=[…]``.

        Raises:
            RuntimeError: It is not open here.
        """
        if self._context is None:
            raise RuntimeError(
                f"resource {self.name} is not open: write uses=[{self.name}] where the "
                "task is defined, and use it while a job runs"
            )
        value: T = self._value  # type: ignore[assignment] # set with the context
        return value

    async def ready(self) -> None:
        """Make sure that the resource is open and not stale."""
        async with self._lock:
            if self._context is not None and not await self._is_fresh():
                logger.info("resource %s went stale and is opened again", self.name)
                await self._close()
            if self._context is None:
                context = self._open()
                self._value = await context.__aenter__()
                self._context = context

    async def close(self) -> None:
        """Close it if it is open."""
        async with self._lock:
            await self._close()

    async def _is_fresh(self) -> bool:
        if self._check is None:
            return True
        try:
            answer = await awaited(self._check(self.value))
        except Exception as exc:
            logger.info("resource %s does not pass its check: %s", self.name, exc)
            return False
        return answer is not False

    async def _close(self) -> None:
        context, self._context, self._value = self._context, None, None
        if context is None:
            return
        try:
            await context.__aexit__(None, None, None)
        except Exception:
            # A stale resource often cannot even be closed.
            logger.warning("resource %s did not close", self.name, exc_info=True)


def using(resources: Sequence[Resource[Any]], handler: CallNext) -> CallNext:
    """Wrap *handler* so that *resources* are open and fresh when it is called."""

    async def handle(job: ActiveJob) -> JSON:
        for resource in resources:
            await resource.ready()
        return await handler(job)

    return handle
