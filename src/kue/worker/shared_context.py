"""What the parts of a worker share: name, store, settings, lanes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kue.aio.retry import StoreRetry
    from kue.model.settings import Settings
    from kue.store.contract import Store
    from kue.worker.lane import Lane

#: How a service sleeps; tests that control the clock pass their own.
Sleep = Callable[[float], Awaitable[None]]


class SharedContext(NamedTuple):
    """A worker as its parts see it."""

    #: Its name in the store.
    name: str
    store: Store
    store_retry: StoreRetry
    settings: Settings
    #: One per type, from the start of `Worker.run`.
    lanes: list[Lane]
    sleep: Sleep = asyncio.sleep

    @property
    def lease_seconds(self) -> float:
        return self.settings.lease / 1000
