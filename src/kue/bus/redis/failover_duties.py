"""Failover duties (assignments) of the nodes of a group, in Redis."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kue.bus.failover_duties import AGAIN_SECONDS, AssignmentResult, GroupView
from kue.bus.redis import scripts
from kue.model.names import check_name, quote

if TYPE_CHECKING:
    from collections.abc import Collection

    from kue.store.redis.wire.client import RedisClient

#: Keys, their Redis types and what they hold, for docs/reference/redis-keys.md.
KEYS = (
    ("{kue:bus}:duty:<group>:nodes", "set", "nodes of a group"),
    ("{kue:bus}:duty:<group>:holders", "hash", "duty → node; empty if no node has it"),
    (
        "{kue:bus}:duty:<group>:records",
        "hash",
        "duty → JSON: the verticle, its config, its options",
    ),
    ("{kue:bus}:duty:<group>:tried", "hash", "duty → JSON: node → when it failed, ms"),
    ("{kue:bus}:duty:<group>:gone", "hash", "dead node → when that was first seen, ms"),
    (
        "{kue:bus}:duty:<group>:struck:<duty>",
        "string",
        "a duty that is over; kept for an hour",
    ),
)
_AGAIN_MS = round(AGAIN_SECONDS * 1000)
#: Records in one reply.
_MANY = 100


class RedisAssignments:
    """The assignments of the node *node* in *group*."""

    def __init__(self, client: RedisClient, root: str, node: str, group: str) -> None:
        self._client = client
        self._root = root
        self._run = partial(scripts.run, client, root)
        self._node = node
        self._group = quote(check_name(group, what="the name of a group"))

    async def survey(self, *, quorum: int, grace: float) -> GroupView | None:
        me = (self._node, self._group)
        grace_ms = round(grace * 1000)
        reply = await self._run("duty_take_over", *me, quorum, grace_ms, _AGAIN_MS)
        if reply == b"GONE":
            return None
        nodes, is_waiting, *ids = reply
        return GroupView(nodes, is_waiting == 1, frozenset(it.decode() for it in ids))

    async def read(self, ids: Collection[str]) -> dict[str, bytes]:
        key = f"{self._root}:duty:{self._group}:records"
        wanted = list(ids)
        found: dict[str, bytes] = {}
        for start in range(0, len(wanted), _MANY):
            some = wanted[start : start + _MANY]
            records = await self._client.read(self._root, "HMGET", key, *some)
            found.update(
                (one, record)
                for one, record in zip(some, records, strict=True)
                if record is not None
            )
        return found

    async def enter(self, duty_id: str, record: bytes) -> AssignmentResult:
        reply = await self._run("duty_add", self._node, self._group, duty_id, record)
        return AssignmentResult(reply.decode())

    async def hand_back(self, duty_id: str) -> None:
        await self._run("duty_release", self._node, self._group, duty_id, _AGAIN_MS)

    async def strike(self, duty_id: str) -> None:
        await self._run("duty_end", self._group, duty_id)

    async def resign(self) -> None:
        await self._run("group_leave", self._node, self._group)
