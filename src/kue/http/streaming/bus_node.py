"""
The server as a node of the event bus: from its first message until it is idle.

Only test messages from the dashboard need a bus.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

from kue.aio.tasks import BackgroundTasks
from kue.bus import EventBus
from kue.http.framework.problem import try_later
from kue.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kue.model.settings import Settings

#: Messages in progress at once.
MAX_USERS = 20
#: Seconds without a message after which the server leaves the bus.
IDLE_SECONDS = 60.0


class ServerBusNode:
    """A bus that is joined while it is used, and a while longer."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._users = 0
        self._left = asyncio.Event()
        self._background = BackgroundTasks()
        self._joined: asyncio.Future[EventBus] | None = None

    @property
    def is_joined(self) -> bool:
        """Whether the server is a node now, or becomes one."""
        return self._joined is not None

    @asynccontextmanager
    async def use(self) -> AsyncIterator[EventBus]:
        """Yield the bus for one message."""
        if self._users >= MAX_USERS:
            raise try_later(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{MAX_USERS} messages are waiting for a reply already",
            )
        self._users += 1
        try:
            if self._joined is None:
                self._joined = asyncio.get_running_loop().create_future()
                self._background.start(self._run(self._joined), "kue bus node")
            yield await asyncio.shield(self._joined)
        finally:
            self._users -= 1
            self._left.set()

    async def close(self) -> None:
        """Leave the bus."""
        await self._background.close()

    async def _run(self, joined: asyncio.Future[EventBus]) -> None:
        # Imported late: a server on SQLite needs no redis.
        from kue.bus.redis import RedisCluster

        cluster = RedisCluster(self._settings.url, prefix=self._settings.prefix)
        try:
            async with EventBus(cluster) as bus:
                joined.set_result(bus)
                await self._until_idle()
                # Later messages join again.
                self._joined = None
        except StoreError as exc:
            if not joined.done():
                joined.set_exception(exc)
                # Marked as retrieved: the caller may be gone by now.
                joined.exception()
        finally:
            joined.cancel()
            if self._joined is joined:
                self._joined = None

    async def _until_idle(self) -> None:
        while True:
            self._left.clear()
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    await self._left.wait()
            except TimeoutError:
                if not self._users:
                    return
