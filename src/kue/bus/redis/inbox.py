"""What other nodes send here: each frame once, and a word on those that are missing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kue.bus.redis.outbox import WINDOW_BYTES, WINDOW_FRAMES

if TYPE_CHECKING:
    from kue.bus.frames import Batch, Frame

logger = logging.getLogger(__name__)

#: Senders that are remembered, dead ones too: one that was taken for dead goes on.
MAX_SENDERS = 10_000
#: What is heard before the sender is told so.
_UNTOLD_FRAMES = WINDOW_FRAMES // 4
_UNTOLD_BYTES = WINDOW_BYTES // 4


class _Sender:
    """How far one was heard."""

    __slots__ = ("bytes", "number", "stream", "told")

    def __init__(self, stream: str) -> None:
        self.stream = stream
        #: Of the last frame.
        self.number = 0
        #: The last number it was told of, and the bytes heard since.
        self.told = 0
        self.bytes = 0


class NodeInbox:
    """Knows the last frame of every sender."""

    def __init__(self) -> None:
        self._senders: dict[str, _Sender] = {}
        #: How many messages are known to have been lost on the way here.
        self.lost = 0
        #: How much came here.
        self.bytes = 0

    def take(self, batch: Batch, size: int) -> list[Frame]:
        """Return the frames of a batch of *size* bytes; none if it was here before."""
        self.bytes += size
        sender = self._senders.get(batch.sender)
        missed = 0
        if sender is None or sender.stream != batch.stream:
            if sender is not None and batch.before is not None:
                stream, number = batch.before
                missed = (
                    max(number - sender.number, 0) if stream == sender.stream else 0
                )
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

    def heard(self, node: str) -> tuple[str, int] | None:
        """Return how far a sender was heard, which it is told by this."""
        sender = self._senders.get(node)
        if sender is None:
            return None
        sender.told = sender.number
        sender.bytes = 0
        return sender.stream, sender.number

    def owes(self, node: str) -> bool:
        """Tell whether it is time that a sender be told how far it was heard."""
        sender = self._senders[node]
        return (
            sender.number - sender.told >= _UNTOLD_FRAMES
            or sender.bytes >= _UNTOLD_BYTES
        )

    def _begin(self, batch: Batch) -> _Sender:
        # Taken out first, so that whoever began last is last.
        self._senders.pop(batch.sender, None)
        if len(self._senders) >= MAX_SENDERS:
            del self._senders[next(iter(self._senders))]
        sender = self._senders[batch.sender] = _Sender(batch.stream)
        return sender
