"""The engines that the contract is proven on, each with a place of its own."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from kue.model import settings
from kue.model.settings import Settings
from kue.store import store_for
from kue.store.contract import Store

#: What ``pytest -k`` selects by.
ENGINES = ("sqlite", "memory", "redis", "redis-shards", "redis-cluster")
#: More than one, so that what spans shards is tested, and few, so that it is quick.
SHARDS = 4
#: A server that others keep from running is slow, not away.
BUDGET = "60s"


@dataclass(frozen=True)
class Engine:
    """Where one test keeps its jobs."""

    name: str
    settings: Settings
    shards: int = 1

    @property
    def is_shared(self) -> bool:
        """Whether a second store sees the same jobs."""
        return self.name != "memory"

    def new_store(self) -> Store:
        return store_for(self.settings)


def engine_at(name: str, url: str, *, shards: int = 1) -> Engine:
    """Return the engine at *url*; on a Redis, with a prefix nobody else has."""
    is_file = url.startswith("sqlite:")
    prefix = None if is_file else f"test-{uuid.uuid4().hex[:12]}"
    loaded = settings.load(environ={}, url=url, prefix=prefix, budget=BUDGET)
    return Engine(name, loaded, shards)
