"""Nodes of one cluster, in this process or in others."""

from __future__ import annotations

from contextlib import AsyncExitStack

from kue.bus import ClusterManager, EventBus, LocalCluster
from kue.bus.redis import RedisCluster
from tests.bus.hearing import Ear
from tests.support.patience import until

#: Quick, so that tests need not wait long for a death.
BEAT, LEASE = 0.2, 3.0


class Nodes(AsyncExitStack):
    """Makes buses that find each other; all are closed in the end."""

    def __init__(self, url: str, prefix: str) -> None:
        super().__init__()
        self.url = url
        self.prefix = prefix
        #: What its keys in Redis begin with.
        self.root = f"{{{prefix}:bus}}"
        self._local = LocalCluster()

    async def new(self) -> EventBus:
        return await self.enter_async_context(EventBus(self.manager()))

    def manager(self) -> ClusterManager:
        if not self.url:
            return self._local.manager()
        return RedisCluster(self.url, prefix=self.prefix, heartbeat=BEAT, lease=LEASE)

    async def several(self, count: int) -> list[EventBus]:
        """Make some that know each other."""
        buses = [await self.new() for _ in range(count)]
        for bus in buses:
            await until(lambda bus=bus: len(bus.nodes) == count)  # type: ignore[misc]
        return buses

    async def close(self) -> None:
        await self.aclose()


async def knows(bus: EventBus, address: str, others: int) -> None:
    """Wait until a node knows how many others listen at an address."""
    cluster = bus.cluster
    assert cluster is not None
    await until(lambda: len(cluster.registrations(address)) == others)


async def listen_ready(
    bus: EventBus, address: str, *, known_to: EventBus | None = None
) -> Ear:
    """Listen at an address once it is announced, and once *known_to* knows it."""
    ear = Ear()
    await bus.consumer(address, ear).ready()
    if known_to is not None:
        await knows(known_to, address, 1)
    return ear


def redis_manager(bus: EventBus) -> RedisCluster:
    assert isinstance(bus.cluster, RedisCluster)
    return bus.cluster
