"""A Redis Cluster: three masters with a replica each, and slots that move."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.faults.clusters import SHARDS, Cluster

from chaos.servers import LeashedRedis, RedisServers, kill, surely, until
from kue.store.redis.keys import root_of

if TYPE_CHECKING:
    from tests.support.servers import RedisServer

    from chaos.plan import Fault

PREFIX = "kue"
#: A master that is only killed or stopped for a moment stays the master: a replica that
#: takes its place by itself may lack what was acknowledged last.
CONFIG = {"cluster-replica-no-failover": "yes", "cluster-node-timeout": "2000"}
#: A fail-over may find no majority, and is not asked for again while one is under way.
TRY_SECONDS = 6.0


class ClusterStage(RedisServers):
    """The nodes, and what is done to them."""

    @property
    def masters(self) -> list[RedisServer]:
        return self._cluster.masters

    async def start(self) -> None:
        self._cluster = await asyncio.to_thread(
            Cluster,
            self._folder,
            replicas=True,
            kind=LeashedRedis,
            config=CONFIG,
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
                    await self._fail_over(self.picked(fault))
        # The next fault may need the replicas, and all nodes at one mind.
        await surely(self._cluster.is_whole)

    async def _fail_over(self, master: RedisServer) -> None:
        """Let the replica of a master take over, with everything."""
        replica = await asyncio.to_thread(self._cluster.replica_of, master)
        took_over = False
        while not took_over:
            await asyncio.to_thread(self._cluster.fail_over, replica)
            took_over = await until(
                lambda: replica in self._cluster.masters, seconds=TRY_SECONDS
            )
