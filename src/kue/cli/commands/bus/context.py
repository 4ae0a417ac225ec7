"""Connecting commands to the event bus: as an inspector, or as a node."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Concatenate, ParamSpec

from kue.aio.event_loop import run
from kue.bus import EventBus
from kue.bus.cluster import NEEDS_REDIS, can_cluster
from kue.cli.context import settings_here, url_option
from kue.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kue.bus import ClusterManager
    from kue.bus.redis import ClusterInspector

P = ParamSpec("P")


def inspects(
    function: Callable[Concatenate[ClusterInspector, P], Awaitable[int | None]],
) -> Callable[P, int | None]:
    """Make a command of *function*: pass it an inspector of the cluster."""

    @url_option
    @functools.wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> int | None:
        async def inspect_it() -> int | None:
            async with _inspector() as inspector:
                return await function(inspector, *args, **kwargs)

        return run(inspect_it())

    return command


def joins(
    function: Callable[Concatenate[EventBus, ClusterManager, P], Awaitable[int | None]],
) -> Callable[P, int | None]:
    """Make a command of *function*: pass it a node of the cluster, and its manager."""

    @url_option
    @functools.wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> int | None:
        async def join() -> int | None:
            # This reports an unavailable Redis sooner: joining keeps retrying.
            async with _inspector() as inspector:
                await inspector.nodes()
            cluster = _cluster()
            async with EventBus(cluster) as bus:
                return await function(bus, cluster, *args, **kwargs)

        return run(join())

    return command


def _inspector() -> ClusterInspector:
    # Imported here, so that commands on SQLite do not need redis.
    from kue.bus.redis import inspect

    config = settings_here()
    _check(config.url)
    return inspect(config.url, config.prefix, budget=config.budget / 1000)


def _cluster() -> ClusterManager:
    from kue.bus.redis import RedisCluster

    config = settings_here()
    return RedisCluster(config.url, prefix=config.prefix)


def _check(url: str) -> None:
    if not can_cluster(url):
        raise ConfigError(f"{NEEDS_REDIS}; give --url redis://localhost:6379/0")
