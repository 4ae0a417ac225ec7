"""
A process that dies after a given number of writes, without a process.

What it holds is a real store, all calls of which fail from that moment on: nothing of
what the process would still have done reaches the jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from kue.store.contract import Store
from kue.store.redis.store import RedisStore
from kue.store.sqlite.store import SqliteStore

#: Of the commands that are not scripts, those that change something.
_WRITES = ("HDEL",)


class Killed(BaseException):
    """The process is dead; no code of it can do anything about that."""


class Life:
    """Counts the writes of a process, and ends it after so many."""

    def __init__(
        self, writes: int | None = None, *, end: Callable[[], None] = lambda: None
    ) -> None:
        self._left = writes
        self._end = end
        self.writes = 0
        self._under_way: set[asyncio.Future[Any]] = set()

    @property
    def is_over(self) -> bool:
        return self._left is not None and self.writes >= self._left

    async def live(self, call: Awaitable[Any], *, writes: bool) -> Any:
        """Make a call of a store, unless that is beyond this life."""
        if self.is_over:
            cast("Any", call).close()
            raise Killed
        task = asyncio.ensure_future(call)
        self._under_way.add(task)
        reply = await task
        self._under_way.discard(task)
        self.writes += writes
        if writes and self.is_over:
            self._end()
            raise Killed
        return reply

    async def until_arrived(self) -> None:
        """Return once calls that were under way when it ended have arrived."""
        await asyncio.gather(*self._under_way, return_exceptions=True)


def bind(store: Store, life: Life) -> None:
    """Have *store* make all calls in *life*: each script or transaction counts."""
    if isinstance(store, SqliteStore):
        _bind(store, "_read", life, lambda args: False)
        _bind(store, "_write", life, lambda args: True)
        return
    client = cast("RedisStore", store)._db.client
    _bind(client, "run", life, lambda args: True)
    _bind(client, "read", life, lambda args: args[1] in _WRITES)
    _bind(client, "read_many", life, lambda args: False)


def _bind(
    owner: Any, name: str, life: Life, writes: Callable[[tuple[Any, ...]], bool]
) -> None:
    call = getattr(owner, name)

    async def within(*args: Any, **given: Any) -> Any:
        return await life.live(call(*args, **given), writes=writes(args))

    setattr(owner, name, within)
