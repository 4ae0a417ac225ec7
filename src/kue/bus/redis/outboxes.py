"""The way to all other nodes: an outbox for each that was ever written to."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from kue.bus.redis.outbox import NodeOutbox

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kue.bus.frames import Frame

logger = logging.getLogger(__name__)

#: Nodes that left of which is known what was sent to them.
MAX_ENDS = 10_000


class NodeOutboxes:
    """
    What waits for other nodes.

    *send* publishes a batch to one of them, *heard* tells how far it was heard here.
    """

    def __init__(
        self,
        node: str,
        send: Callable[[str, bytes], Awaitable[int]],
        heard: Callable[[str], tuple[str, int] | None],
    ) -> None:
        self._node = node
        self._send = send
        self._heard = heard
        self._outboxes: dict[str, NodeOutbox] = {}
        #: Where the outboxes of nodes that left ended; they may come back.
        self._ends: dict[str, tuple[str, int]] = {}
        #: Nodes for which there is no room, of which the log has told.
        self._full: set[str] = set()
        #: How many messages found no room, in whichever thread.
        self.given_up = 0
        #: How much was published.
        self.bytes = 0
        self._counting = threading.Lock()

    def put(self, node: str, frame: Frame) -> str:
        """Send a frame on its way; return why not, if there is no room."""
        outbox = self._to(node)
        if outbox.put(frame):
            if node in self._full and not outbox.is_crowded:
                self._full.discard(node)
            return ""
        return self.give_up(node, frame)

    def give_up(self, node: str, frame: Frame) -> str:
        """Count a frame for which there is no room; return what to say."""
        reason = f"too much waits to be sent to node {node}"
        if node not in self._full:
            self._full.add(node)
            logger.error(
                "%s; messages are lost, the first to %s", reason, frame.address
            )
        with self._counting:
            self.given_up += 1
        return reason

    def acknowledge(self, node: str, heard: tuple[str, int]) -> None:
        """Know how far a node has heard."""
        outbox = self._outboxes.get(node)
        if outbox is not None:
            outbox.acknowledge(*heard)

    def tell(self, node: str) -> None:
        """Say how far a node was heard."""
        self._to(node).tell()

    def remind(self, node: str) -> None:
        """Say how much was sent to a node that was away and may have missed it."""
        if node in self._outboxes or node in self._ends:
            self._to(node).tell(asks=True)

    def unsure(self, node: str) -> int:
        """Return how many messages were sent that a node has not said it heard."""
        outbox = self._outboxes.get(node)
        return 0 if outbox is None else outbox.unsure

    async def close(self, node: str) -> list[Frame]:
        """Give up on a node; return what it has certainly not seen."""
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
        """Wait until nothing waits."""
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
                lambda: self._heard(node),
                self._ends.pop(node, None),
            )
        return outbox
