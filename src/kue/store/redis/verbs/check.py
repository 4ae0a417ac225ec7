"""Checking the store, and repairing it: the verb `check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kue.store.redis.doctor.check import CheckProgress, RedisCheck
from kue.store.redis.doctor.key_parsing import glob
from kue.store.redis.doctor.shard_access import Shard

if TYPE_CHECKING:
    from kue.store.contract import OnProgress
    from kue.store.redis.sharding import Shards
    from kue.store.values import Report


async def check(
    db: Shards, *, repair: bool = False, on_progress: OnProgress | None = None
) -> Report:
    shards: list[Shard] = []
    for number in range(db.count):
        shards.append(Shard(db, number, shards))
    work = RedisCheck(shards, CheckProgress(on_progress))
    return await work.run(await servers_of(db), pattern_of(db), repair=repair)


async def servers_of(db: Shards) -> list[int]:
    """Return one shard per server: SCAN covers all keys of a server."""
    await db.open()
    if db.client.has_one_server:
        return [0]
    by_id: dict[str, int] = {}
    # One after another: shards of the same node share a connection.
    for shard, keys in enumerate(db.keys):
        server = await db.client.info(keys.root, "server")
        by_id[server["run_id"]] = shard
    return list(by_id.values())


def pattern_of(db: Shards) -> str:
    """Return the pattern that the keys of all shards match."""
    root = glob(db.keys[0].root)
    if db.count > 1:
        root = root.removesuffix("0}") + "[0-9]*}"
    return f"{root}:*"
