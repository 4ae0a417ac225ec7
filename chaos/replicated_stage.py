"""A master and its replica, which can take over from it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.faults.sentinels import Replicated, say
from tests.support.servers import HOST, wait_until

from chaos.servers import LeashedRedis, RedisServers

if TYPE_CHECKING:
    from tests.support.servers import RedisServer


class ReplicatedStage(RedisServers):
    """The pair; subclasses define how clients find the master."""

    @property
    def masters(self) -> list[RedisServer]:
        return [self._pair.master]

    async def start(self) -> None:
        self._pair = await asyncio.to_thread(
            Replicated, self._folder, kind=LeashedRedis
        )
        self._cleanup.callback(self._pair.stop)

    async def until_in_step(self) -> None:
        """Wait until the replica has everything."""
        await asyncio.to_thread(
            wait_until, self._pair.is_in_step, "the replica is in step"
        )

    def swap(self) -> None:
        """Make the replica the master, which was killed."""
        pair = self._pair
        pair.master, pair.replica = pair.replica, pair.master

    async def bring_back(self) -> None:
        """Start the killed server again, as a replica of the new master."""
        pair = self._pair
        await asyncio.to_thread(pair.replica.restart)
        where = (HOST, str(pair.master.port))
        await asyncio.to_thread(say, pair.replica, "REPLICAOF", *where)
        await self.until_in_step()
