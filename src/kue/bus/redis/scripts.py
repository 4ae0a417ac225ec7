"""Lua scripts of the event bus cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.store.redis.scripts import load

if TYPE_CHECKING:
    from kue.store.redis.wire.client import RedisClient

PACKAGE = "kue.bus.redis"


async def run(client: RedisClient, root: str, script: str, *args: Any) -> Any:
    """Run a script of the cluster whose keys begin with *root*."""
    return await client.run_loaded(load(script, PACKAGE), root, *args)
