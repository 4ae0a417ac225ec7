"""Checking the store, and repairing it: the verb `check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.redis.doctor.examination import Examination
from kue.store.redis.doctor.keyspace import glob
from kue.store.redis.doctor.layout import Layout
from kue.store.redis.doctor.shard import Shard
from kue.store.redis.doctor.steps import Steps
from kue.store.redis.verbs.queries import Reading

if TYPE_CHECKING:
    from kue.store.contract import OnProgress
    from kue.store.values import Report


class Checking(Reading):
    """
    Checks every invariant; `kue.store.redis.doctor` has the parts.

    A survey reads everything and collects suspects.  A script then examines each again,
    atomically; only what is still wrong is a finding.
    """

    async def check(
        self, *, repair: bool = False, on_progress: OnProgress | None = None
    ) -> Report:
        await self.open()
        shards = [
            Shard(number, keys, self._run, self._read_many)
            for number, keys in enumerate(self._keys)
        ]
        examination = Examination(shards, Layout(self._keys), Steps(on_progress))
        return await examination.run(
            await self._servers(), self._pattern(), repair=repair
        )

    async def _servers(self) -> list[int]:
        """Return one shard per server: SCAN covers all keys of a server."""

        async def server_of(shard: int) -> str:
            await self.open()
            info = await self._client.info(self._keys[shard].root, "server")
            return info["run_id"]

        servers = await self._on_all(server_of)
        return list({server: shard for shard, server in enumerate(servers)}.values())

    def _pattern(self) -> str:
        """Return the pattern that the keys of all shards match."""
        root = glob(self._keys[0].root)
        if self._shards > 1:
            root = root.removesuffix("0}") + "[0-9]*}"
        return f"{root}:*"
