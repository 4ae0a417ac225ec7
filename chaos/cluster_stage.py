"""A Redis Cluster: three masters with one replica each, and slots that move."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.faults.clusters import SHARDS, Cluster

from chaos.servers import LeashedRedis, RedisServers, kill
from kue.store.redis.keys import root_of

if TYPE_CHECKING:
    from tests.support.servers import RedisServer

    from chaos.plan import Fault

PREFIX = "kue"
#: A master that is killed or stopped only for a moment stays the master: a replica that
#: takes over automatically may lack the last acknowledged writes.
CONFIG = {"cluster-replica-no-failover": "yes", "cluster-node-timeout": "2000"}


class ClusterStage(RedisServers):
    """The nodes, and their faults."""

    @property
    def masters(self) -> list[RedisServer]:
        return self._cluster.masters

    async def start(self) -> None:
        self._cluster = await asyncio.to_thread(
            Cluster, self._folder, replicas=True, kind=LeashedRedis, config=CONFIG
        )
        self._cleanup.callback(self._cluster.stop)
        self.url = self.direct = self._cluster.url

    async def strike_own(self, fault: Fault) -> None:
        with self.absence():
            match fault.kind:
                case "move_slot":
                    shard = int(fault.pick * SHARDS)
                    root = root_of(PREFIX, shard, SHARDS)
                    await asyncio.to_thread(self._cluster.move_slot, root)
                case "redis_kill":
                    await kill(self.picked(fault), fault.seconds)
                case _:
                    await asyncio.to_thread(self._cluster.fail_over, self.picked(fault))
        # The next fault may need the replicas, and nodes that agree on the topology.
        await asyncio.to_thread(self._cluster.until_whole)
