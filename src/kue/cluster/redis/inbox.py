"""What other nodes send here: each batch once, and a word on those that are missing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kue.bus.wire import unpack

if TYPE_CHECKING:
    from kue.bus.wire import Frame

logger = logging.getLogger(__name__)


class Inbox:
    """Knows the last batch of every sender."""

    def __init__(self) -> None:
        #: The stream and the number of it.
        self._last: dict[str, tuple[str, int]] = {}
        #: How many batches are known to have been lost on the way here.
        self.lost = 0
        #: How much came here.
        self.bytes = 0

    def open(self, packed: bytes) -> list[Frame]:
        """
        Return the frames of a batch; none if it was here before.

        Raises:
            msgspec.DecodeError: It is no batch.
        """
        self.bytes += len(packed)
        batch = unpack(packed)
        stream, last = self._last.get(batch.sender, (batch.stream, 0))
        if stream != batch.stream:
            last = 0
        if batch.number <= last:
            return []
        missed = batch.number - last - 1
        if missed:
            self.lost += missed
            logger.warning("%d batches from node %s are lost", missed, batch.sender)
        self._last[batch.sender] = (batch.stream, batch.number)
        return batch.frames

    def forget(self, node: str) -> None:
        self._last.pop(node, None)
