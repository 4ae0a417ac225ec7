"""
Slot map of a Redis Cluster: which node has the slot of a key.

It is read from any node that answers.  MOVED names the new node of one slot, which is
used at once: the nodes that the map could be read from may learn of it later.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from redis import exceptions
from redis.crc import key_slot

#: Host and port.
Node = tuple[str, int]
#: Sends a command to a node, with a deadline on the event loop's clock.
Ask = Callable[[Node, tuple[Any, ...], float], Awaitable[Any]]

#: How long one node may take to answer before the next one is asked.
_ASK_SECONDS = 1.0


class ClusterSlots:
    """Finds the node of a key; *seeds* are the nodes that the user named."""

    def __init__(self, seeds: list[Node], ask: Ask) -> None:
        self._seeds = seeds
        self._ask = ask
        #: First and last slot of each range, and its node.
        self._ranges: list[tuple[int, int, Node]] = []
        #: Slots that moved since the ranges were read.
        self._moved: dict[int, Node] = {}
        self._reading = asyncio.Lock()

    async def node_of(self, key: str, deadline: float) -> Node:
        """
        Return the node that has the slot of *key*.

        Raises:
            ClusterDownError: No node has it, so far as the one that was asked knows.
            ConnectionError: No node answers.
        """
        slot = key_slot(key.encode())
        async with asyncio.timeout_at(deadline), self._reading:
            if not self._ranges and slot not in self._moved:
                await self._read(deadline)
        if slot in self._moved:
            return self._moved[slot]
        for first, last, node in self._ranges:
            if first <= slot <= last:
                return node
        # Not redis-py's SlotNotCoveredError: that one is not a RedisError.
        raise exceptions.ClusterDownError(f"no node has slot {slot}")

    def move(self, slot: int, node: Node) -> None:
        """Follow a slot to its new node."""
        self._moved[slot] = node

    def forget(self) -> None:
        """Discard the map, so that it is read again before its next use."""
        # The known nodes are kept as seeds: all that the user named may be gone.
        known = [*(node for _, _, node in self._ranges), *self._moved.values()]
        self._seeds = list(dict.fromkeys([*self._seeds, *known]))
        self._ranges = []
        self._moved = {}

    async def _read(self, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        error: Exception = exceptions.ConnectionError("no node of the cluster answers")
        # In random order: a node that was cut off has an outdated map.
        for node in random.sample(self._seeds, len(self._seeds)):
            limit = min(deadline, loop.time() + _ASK_SECONDS)
            try:
                reply = await self._ask(node, ("CLUSTER", "SLOTS"), limit)
            except exceptions.AuthenticationError:
                raise
            except (exceptions.RedisError, OSError) as exc:
                error = exc
            else:
                self._ranges = [_range(row, node) for row in reply]
                return
        raise error


def _range(row: list[Any], asked: Node) -> tuple[int, int, Node]:
    """Read a range of slots; a node that does not know its own host omits it."""
    first, last, [host, port, *_] = row[:3]
    name = (host or b"").decode()
    return int(first), int(last), (name if name not in ("", "?") else asked[0], port)
