"""Connecting commands to the event bus: as an inspector, or as a node."""

from __future__ import annotations

import functools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from kue.aio.event_loop import run
from kue.bus import EventBus
from kue.bus.cluster import NEEDS_REDIS, can_cluster
from kue.cli.context import command, settings_here
from kue.cli.output.console import DONE
from kue.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from contextlib import AbstractAsyncContextManager

    import click

    from kue.bus.redis import ClusterInspector


def _connected(
    connect: Callable[[], AbstractAsyncContextManager[Any]],
    function: Callable[..., Awaitable[int | None]],
    *,
    is_endless: bool = False,
) -> click.Command:
    @functools.wraps(function)
    def call(**given: Any) -> int | None:
        async def call_with_bus() -> int | None:
            async with connect() as bus:
                return await function(bus, **given)

        try:
            return run(call_with_bus())
        except KeyboardInterrupt:
            if is_endless:
                # The normal way to stop.
                return DONE
            raise

    return command(call)


def _inspector() -> ClusterInspector:
    # Imported here, so that commands on SQLite do not need redis.
    from kue.bus.redis import inspect

    config = settings_here()
    if not can_cluster(config.url):
        raise ConfigError(f"{NEEDS_REDIS}; give --url redis://localhost:6379/0")
    return inspect(config.url, config.prefix, budget=config.budget / 1000)


@asynccontextmanager
async def _node() -> AsyncIterator[EventBus]:
    from kue.bus.redis import RedisCluster

    # This reports an unavailable Redis sooner: joining keeps retrying.
    async with _inspector() as inspector:
        await inspector.nodes()
    config = settings_here()
    async with EventBus(RedisCluster(config.url, prefix=config.prefix)) as bus:
        yield bus


#: Makes a command of a function: passes it an inspector of the cluster.
inspects = functools.partial(_connected, _inspector)
#: Makes a command of a function: passes it a node of the cluster.
joins = functools.partial(_connected, _node)
