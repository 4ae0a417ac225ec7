"""
Inspection of a cluster without being a node of it.

It reads the status that nodes write.  To see messages, a client sets a flag, and nodes
publish samples until it expires.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from kue.bus.redis.scripts import root_of
from kue.bus.stats import MessageSample, NodeStats
from kue.store.redis.wire.client import RedisClient, pairs
from kue.store.redis.wire.url import read_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

T = TypeVar("T")

#: Most nodes that are read.
MAX_NODES = 1_000
#: How long nodes publish samples after one request, in seconds.
LOOK_SECONDS = 5.0
#: Statuses read at a time.
_MANY = 50

_facts = msgspec.json.Decoder(NodeStats)
_samples = msgspec.json.Decoder(list[MessageSample])


class ClusterNode(NamedTuple):
    """A node of the cluster."""

    name: str
    #: How long ago its last heartbeat was, in ms.
    silent_ms: int
    #: None before its first status, and when that cannot be read.
    facts: NodeStats | None


class ClusterInspector:
    """Reads the cluster at *url* under *prefix*."""

    def __init__(self, url: str, *, prefix: str = "kue", budget: float = 5.0) -> None:
        self._root = root_of(prefix)
        self._client = RedisClient(read_url(url), budget_seconds=budget)

    async def __aenter__(self) -> ClusterInspector:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.close()

    async def nodes(self) -> list[ClusterNode]:
        """Return the nodes, by name."""
        read = ("ZRANGE", f"{self._root}:nodes", 0, MAX_NODES - 1, "WITHSCORES")
        [seconds, micros], heartbeats = await self._client.read_many(
            self._root, [("TIME",), read]
        )
        now = int(seconds) * 1000 + int(micros) // 1000
        found: list[ClusterNode] = []
        known = sorted((name.decode(), float(at)) for name, at in pairs(heartbeats))
        for start in range(0, len(known), _MANY):
            some = known[start : start + _MANY]
            keys = [f"{self._root}:facts:{name}" for name, _ in some]
            [statuses] = await self._client.read_many(self._root, [("MGET", *keys)])
            found += [
                ClusterNode(name, max(0, now - round(at)), _decoded(_facts, facts))
                for (name, at), facts in zip(some, statuses, strict=True)
            ]
        return found

    async def look(self, seconds: float = LOOK_SECONDS) -> None:
        """Have nodes publish samples for so long, from their next heartbeat."""
        key = f"{self._root}:seen"
        ttl = round(seconds * 1000)
        await self._client.read(self._root, "SET", key, "1", "PX", ttl)

    @asynccontextmanager
    async def samples(
        self,
    ) -> AsyncIterator[Callable[[float], Awaitable[list[MessageSample]]]]:
        """Yield a function that waits for samples, so many seconds at most."""
        channel = f"{self._root}:samples"
        async with self._client.subscription(self._root, channel) as messages:

            async def receive(timeout: float) -> list[MessageSample]:
                return _decoded(_samples, await messages(timeout)) or []

            yield receive


def inspect(url: str, prefix: str = "kue", *, budget: float = 5.0) -> ClusterInspector:
    """Return an inspector of a cluster; nothing is opened yet."""
    return ClusterInspector(url, prefix=prefix, budget=budget)


def _decoded(decoder: msgspec.json.Decoder[T], text: bytes | None) -> T | None:
    try:
        return None if text is None else decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Written by another version, or by no node at all.
        return None
