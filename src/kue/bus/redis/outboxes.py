"""Outboxes for all other nodes that were ever sent to."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from kue.bus.redis.outbox import NodeOutbox

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kue.bus.frames import Frame

logger = logging.getLogger(__name__)

#: Nodes that left whose last number is remembered.
MAX_ENDS = 10_000


class NodeOutboxes:
    """
    The frames for other nodes.

    *send* publishes a batch to a node, *ack* returns the acknowledgement for it.
    """

    def __init__(
        self,
        node: str,
        send: Callable[[str, bytes], Awaitable[int]],
        ack: Callable[[str], tuple[str, int] | None],
    ) -> None:
        self._node = node
        self._send = send
        self._ack = ack
        self._outboxes: dict[str, NodeOutbox] = {}
        #: The last number sent to each node that left; it may come back.
        self._ends: dict[str, tuple[str, int]] = {}
        #: Nodes for which there is no room; that was logged.
        self._full: set[str] = set()
        #: How many messages found no room, in any thread.
        self.given_up = 0
        #: Bytes published.
        self.bytes = 0
        self._count_lock = threading.Lock()

    def put(self, node: str, frame: Frame) -> str:
        """Queue a frame; if there is no room, return the reason."""
        outbox = self._to(node)
        if outbox.put(frame):
            if node in self._full and not outbox.is_crowded:
                self._full.discard(node)
            return ""
        return self.drop(node, frame)

    def drop(self, node: str, frame: Frame) -> str:
        """Count and log a frame for which there is no room; return the reason."""
        reason = f"the outbox for node {node} is full"
        if node not in self._full:
            self._full.add(node)
            logger.error(
                "%s; messages are lost, the first to %s", reason, frame.address
            )
        with self._count_lock:
            self.given_up += 1
        return reason

    def acknowledge(self, node: str, ack: tuple[str, int]) -> None:
        """Handle an acknowledgement from a node."""
        outbox = self._outboxes.get(node)
        if outbox is not None:
            outbox.acknowledge(*ack)

    def send_ack(self, node: str) -> None:
        """Send a node an acknowledgement."""
        self._to(node).send_ack()

    def remind(self, node: str) -> None:
        """Report the last number sent to a node that was away and may have losses."""
        if node in self._outboxes or node in self._ends:
            self._to(node).send_ack(wants_ack=True)

    def unacknowledged(self, node: str) -> int:
        """Return how many messages a node has not acknowledged."""
        outbox = self._outboxes.get(node)
        return 0 if outbox is None else outbox.unacknowledged

    async def close(self, node: str) -> list[Frame]:
        """Drop a node; return what it has certainly not received."""
        self._full.discard(node)
        outbox = self._outboxes.pop(node, None)
        if outbox is None:
            return []
        unseen = await outbox.close()
        if outbox.end is not None:
            if len(self._ends) >= MAX_ENDS:
                del self._ends[next(iter(self._ends))]
            self._ends[node] = outbox.end
        return unseen

    async def flush(self) -> None:
        """Wait until everything is sent."""
        for outbox in list(self._outboxes.values()):
            await outbox.flush()

    async def abandon(self) -> None:
        """Stop at once; nothing more is sent."""
        for outbox in list(self._outboxes.values()):
            await outbox.abandon()

    def _to(self, node: str) -> NodeOutbox:
        outbox = self._outboxes.get(node)
        if outbox is None:
            outbox = self._outboxes[node] = NodeOutbox(
                self._node,
                node,
                lambda batch: self._send(node, batch),
                lambda: self._ack(node),
                self._ends.pop(node, None),
            )
        return outbox
