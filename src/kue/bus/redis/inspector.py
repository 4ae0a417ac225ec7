"""
Looking at a cluster without being a node of it.

What nodes write down of themselves is read; whoever wants to see messages says so, and
nodes publish some of them as long as that is repeated.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kue.bus.redis.key_prefix import root_of
from kue.bus.stats import MessageSample, NodeStats
from kue.store.redis.wire.client import RedisClient, pairs
from kue.store.redis.wire.url import read_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from types import TracebackType

#: Nodes that are looked at.
MAX_NODES = 1_000
#: How long nodes show messages to someone who looks, in seconds.
LOOK_SECONDS = 5.0
#: What nodes tell is read so many at a time.
_MANY = 50

_facts = msgspec.json.Decoder(NodeStats)
_samples = msgspec.json.Decoder(list[MessageSample])
#: What comes of JSON that no node wrote.
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class ClusterNode(NamedTuple):
    """A node of the cluster."""

    name: str
    #: How long ago it beat, in ms.
    silent_ms: int
    #: None before its first word, and when it cannot be read.
    facts: NodeStats | None


class ClusterInspector:
    """A way to look at the cluster at *url* under *prefix*."""

    def __init__(self, url: str, *, prefix: str = "kue", budget: float = 5.0) -> None:
        self._address = read_url(url)
        self._root = root_of(prefix)
        self._link = RedisClient(self._address, budget_seconds=budget)

    async def __aenter__(self) -> ClusterInspector:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._link.close()

    async def nodes(self) -> list[ClusterNode]:
        """Return the nodes there are, by name."""
        [seconds, micros], beats = await self._link.read_many(
            self._root,
            [
                ("TIME",),
                ("ZRANGE", f"{self._root}:nodes", 0, MAX_NODES - 1, "WITHSCORES"),
            ],
        )
        now = int(seconds) * 1000 + int(micros) // 1000
        found: list[ClusterNode] = []
        known = sorted((name.decode(), float(beat)) for name, beat in pairs(beats))
        for start in range(0, len(known), _MANY):
            some = known[start : start + _MANY]
            keys = [f"{self._root}:facts:{name}" for name, _ in some]
            [told] = await self._link.read_many(self._root, [("MGET", *keys)])
            found += [
                ClusterNode(name, max(0, now - round(beat)), _read(facts))
                for (name, beat), facts in zip(some, told, strict=True)
            ]
        return found

    async def look(self, seconds: float = LOOK_SECONDS) -> None:
        """Have nodes show some of their messages for so long, from their next beat."""
        key = f"{self._root}:seen"
        await self._link.read(self._root, "SET", key, "1", "PX", round(seconds * 1000))

    @asynccontextmanager
    async def samples(
        self,
    ) -> AsyncIterator[Callable[[float], Awaitable[list[MessageSample]]]]:
        """Give what waits for messages that nodes show, so many seconds at most."""
        channel = f"{self._root}:samples"
        try:
            async with self._link.subscription(self._root, channel) as messages:

                async def heard(timeout: float) -> list[MessageSample]:
                    message = await messages(timeout)
                    return [] if message is None else _shown(message)

                yield heard
        except self._link.errors as exc:
            raise self._link.translate(exc) from exc


def inspect(url: str, prefix: str = "kue", *, budget: float = 5.0) -> ClusterInspector:
    """Return a way to look at a cluster; nothing is opened yet."""
    return ClusterInspector(url, prefix=prefix, budget=budget)


def _read(facts: bytes | None) -> NodeStats | None:
    try:
        return None if facts is None else _facts.decode(facts)
    except _UNREADABLE:
        # Another version, with other words for it.
        return None


def _shown(message: bytes) -> list[MessageSample]:
    try:
        return _samples.decode(message)
    except _UNREADABLE:
        return []
