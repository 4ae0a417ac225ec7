"""Lua scripts and key prefix of the event bus cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kue.model.names import check_name, quote
from kue.store.redis.scripts import load

if TYPE_CHECKING:
    from kue.store.redis.wire.client import RedisClient

PACKAGE = "kue.bus.redis"


def root_of(prefix: str) -> str:
    """Return the hash tag of the cluster under *prefix*."""
    check_name(prefix, what="prefix")
    return f"{{{quote(prefix)}:bus}}"


async def run(client: RedisClient, root: str, script: str, *args: Any) -> Any:
    """Run a script of the cluster whose keys begin with *root*."""
    return await client.run(load(script, PACKAGE), root, *args)
