"""The inbox of a node: frames from others, each once; losses; acknowledgements."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kue.bus.redis.outbox import WINDOW_BYTES, WINDOW_FRAMES

if TYPE_CHECKING:
    from kue.bus.frames import Batch, Frame

logger = logging.getLogger(__name__)

#: Senders that are remembered, dead ones too: one considered dead may go on.
MAX_SENDERS = 10_000
#: What is received before the sender gets an acknowledgement.
_UNACKNOWLEDGED_FRAMES = WINDOW_FRAMES // 4
_UNACKNOWLEDGED_BYTES = WINDOW_BYTES // 4


@dataclass(slots=True)
class _Sender:
    """The last frame received of one sender."""

    stream: str
    #: Number of the last frame.
    number: int = 0
    #: The last number acknowledged, and the bytes received since.
    acknowledged: int = 0
    bytes: int = 0


class NodeInbox:
    """Knows the last frame of every sender."""

    def __init__(self) -> None:
        self._senders: dict[str, _Sender] = {}
        #: How many messages are known to have been lost on the way here.
        self.lost = 0
        #: Bytes received.
        self.bytes = 0

    def take(self, batch: Batch, size: int) -> list[Frame]:
        """Return the frames of a batch of *size* bytes; none if it is a repetition."""
        self.bytes += size
        sender = self._senders.get(batch.sender)
        missed = 0
        if sender is None or sender.stream != batch.stream:
            if sender is not None and batch.previous is not None:
                stream, number = batch.previous
                if stream == sender.stream:
                    missed = max(number - sender.number, 0)
            sender = self._begin(batch)
        if batch.number <= sender.number:
            return []
        missed += batch.number - sender.number - 1
        if missed:
            self.lost += missed
            logger.warning("%d messages from node %s are lost", missed, batch.sender)
        sender.number = batch.number + len(batch.frames) - 1
        sender.bytes += size
        return batch.frames

    def ack(self, node: str) -> tuple[str, int] | None:
        """Return the acknowledgement for a sender, which is about to be sent."""
        sender = self._senders.get(node)
        if sender is None:
            return None
        sender.acknowledged = sender.number
        sender.bytes = 0
        return sender.stream, sender.number

    def is_ack_due(self, node: str) -> bool:
        """Return whether it is time to send a sender an acknowledgement."""
        sender = self._senders[node]
        return (
            sender.number - sender.acknowledged >= _UNACKNOWLEDGED_FRAMES
            or sender.bytes >= _UNACKNOWLEDGED_BYTES
        )

    def _begin(self, batch: Batch) -> _Sender:
        # Removed first, so that senders are in the order in which their streams began.
        self._senders.pop(batch.sender, None)
        if len(self._senders) >= MAX_SENDERS:
            del self._senders[next(iter(self._senders))]
        sender = self._senders[batch.sender] = _Sender(batch.stream)
        return sender
