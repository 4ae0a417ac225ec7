"""The Lua scripts beside this module."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.store.redis.scripts import load

if TYPE_CHECKING:
    from kue.store.redis.wire.client import RedisClient

PACKAGE = "kue.bus.redis"


async def run(link: RedisClient, root: str, script: str, *args: Any) -> Any:
    """Run a script of the cluster at *root*."""
    return await link.run_loaded(load(script, PACKAGE), root, *args)
