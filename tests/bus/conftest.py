"""Fixtures for the bus: one of this process, and clusters of several."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kue.bus import EventBus
from tests.bus.nodes import Nodes
from tests.bus.threads import Loop
from tests.support.servers import RedisCluster, RedisServer


@pytest.fixture
async def bus() -> AsyncIterator[EventBus]:
    async with EventBus() as bus:
        yield bus


@pytest.fixture
def prefix() -> str:
    return f"bus-{uuid.uuid4().hex[:12]}"


@pytest.fixture(params=["local", "redis", "redis-cluster"])
async def nodes(request: pytest.FixtureRequest, prefix: str) -> AsyncIterator[Nodes]:
    """Nodes of one cluster, on every kind of manager there is."""
    url = ""
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        url = server.url
    elif request.param == "redis-cluster":
        cluster: RedisCluster = request.getfixturevalue("redis_cluster")
        url = cluster.url(shards=1)
    async with Nodes(url, prefix) as nodes:
        yield nodes


@pytest.fixture
async def redis_nodes(redis_server: RedisServer, prefix: str) -> AsyncIterator[Nodes]:
    """Nodes that meet in Redis."""
    async with Nodes(redis_server.url, prefix) as nodes:
        yield nodes


@pytest.fixture
def own_redis(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis that only this test uses, and may restart; a parameter configures it."""
    server = RedisServer(tmp_path, config=getattr(request, "param", {}))
    yield server
    server.stop()


@pytest.fixture
async def own_nodes(own_redis: RedisServer, prefix: str) -> AsyncIterator[Nodes]:
    """Nodes that meet there."""
    async with Nodes(own_redis.url, prefix) as nodes:
        yield nodes


@pytest.fixture
def other() -> Iterator[Loop]:
    other = Loop()
    yield other
    if not other.loop.is_closed():
        other.stop()
