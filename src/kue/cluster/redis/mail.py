"""The way to all other nodes: an outbox for each that was ever written to."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kue.cluster.redis.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kue.bus.wire import Frame

logger = logging.getLogger(__name__)


class Mail:
    """What waits for other nodes; *send* publishes a batch to one of them."""

    def __init__(self, node: str, send: Callable[[str, bytes], Awaitable[int]]) -> None:
        self._node = node
        self._send = send
        self._outboxes: dict[str, Outbox] = {}
        #: Nodes for which there is no room, of which the log has told.
        self._full: set[str] = set()
        #: How many messages found no room.
        self.given_up = 0
        #: How much was published.
        self.bytes = 0

    def put(self, node: str, frame: Frame) -> str:
        """Send a frame on its way; return why not, if there is no room."""
        outbox = self._outboxes.get(node)
        if outbox is None:
            outbox = self._outboxes[node] = Outbox(
                self._node, node, lambda batch: self._send(node, batch)
            )
        if outbox.put(frame):
            self._full.discard(node)
            return ""
        reason = f"too much waits to be sent to node {node}"
        if node not in self._full:
            self._full.add(node)
            logger.error(
                "%s; messages are lost, the first to %s", reason, frame.address
            )
        self.given_up += 1
        return reason

    async def close(self, node: str) -> list[Frame]:
        """Give up on a node; return what it has certainly not seen."""
        self._full.discard(node)
        outbox = self._outboxes.pop(node, None)
        return [] if outbox is None else await outbox.close()

    async def flush(self) -> None:
        """Wait until nothing waits."""
        for outbox in list(self._outboxes.values()):
            await outbox.flush()

    async def abandon(self) -> None:
        """Stop at once; nothing more is sent."""
        for outbox in list(self._outboxes.values()):
            await outbox.abandon()
