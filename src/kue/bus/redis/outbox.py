"""
Outboxes for other nodes: batches, retries, and flow control by a window.

One batch is on its way at a time; what is posted in the meantime makes the next one.
A batch that found no subscriber is sent again until the node is back or known to be
gone: then no node has received it, and it can go to another.

No more than a window is sent before the node acknowledges it: backlog of a slow node
waits here and not in Redis, which would cut it off.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections import deque
from typing import TYPE_CHECKING

from kue.aio.coalesced_calls import CoalescedCalls
from kue.bus.frames import Batch, Frame, pack, size
from kue.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

#: Nodes that left whose last number is remembered.
MAX_LEFT = 1_000
#: How much may wait for one node.
MAX_FRAMES = 100_000
MAX_BYTES = 64 * 1024 * 1024
#: How much one batch may hold.
BATCH_FRAMES = 1000
BATCH_BYTES = 256 * 1024
#: How much may be unacknowledged, plus one batch.
WINDOW_FRAMES = 10_000
WINDOW_BYTES = 1024 * 1024
#: How long to wait for a node that is not subscribed, or a Redis that does not answer.
_PAUSE_SECONDS = 0.05
#: How long to wait for an acknowledgement before asking for one.
_ASK_SECONDS = 1.0


class NodeOutboxes:
    """
    The frames for all other nodes that were ever sent to.

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
        #: The closed outboxes of nodes that left, and may come back.
        self._left: dict[str, NodeOutbox] = {}
        #: Nodes for which there is no room; that was logged.
        self._full: set[str] = set()
        #: How many messages found no room, in any thread.
        self.given_up = 0
        #: Bytes published.
        self.bytes = 0
        self._count_lock = threading.Lock()

    def put(self, node: str, frame: Frame) -> str:
        """Queue a frame; if there is no room, return the reason."""
        outbox = self.to(node)
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

    def remind(self, node: str) -> None:
        """Report the last number sent to a node that was away and may have losses."""
        if node in self._outboxes or node in self._left:
            self.to(node).send_ack(wants_ack=True)

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
        # At once: the node may be back before a batch that is on its way has ended.
        if outbox.end is not None:
            if len(self._left) >= MAX_LEFT:
                del self._left[next(iter(self._left))]
            self._left[node] = outbox
        return await outbox.close()

    async def flush(self) -> None:
        """Wait until everything is sent."""
        for outbox in list(self._outboxes.values()):
            await outbox.flush()

    async def abandon(self) -> None:
        """Stop at once; nothing more is sent."""
        for outbox in list(self._outboxes.values()):
            await outbox.abandon()

    def to(self, node: str) -> NodeOutbox:
        """Return the outbox for a node."""
        outbox = self._outboxes.get(node)
        if outbox is None:
            outbox = self._outboxes[node] = NodeOutbox(
                self._node,
                node,
                lambda batch: self._send(node, batch),
                lambda: self._ack(node),
                self._left.pop(node, None),
            )
        return outbox


class NodeOutbox:
    """
    The frames for one node.

    *send* publishes a batch and returns how many received it; *ack* returns the
    acknowledgement for the other node, which is sent along.  *before* is the closed
    outbox of a node that was considered dead and came back: it can count its losses.
    """

    def __init__(
        self,
        sender: str,
        node: str,
        send: Callable[[bytes], Awaitable[int]],
        ack: Callable[[], tuple[str, int] | None] = lambda: None,
        before: NodeOutbox | None = None,
    ) -> None:
        self._sender = sender
        self._send = send
        self._ack = ack
        self._before = before
        #: Where that one ended, once it has.
        self._previous: tuple[str, int] | None = None
        self._waiting: deque[Frame] = deque()
        self._bytes = 0
        # A node that was dropped and came back gets a new stream.
        self._stream = secrets.token_hex(4)
        #: The number of the last frame sent, and of the last one acknowledged.
        self._number = 0
        self._acknowledged = 0
        #: The batches in between: the number of the last frame, and bytes.
        self._sent: deque[tuple[int, int]] = deque()
        self._sent_bytes = 0
        #: Whether a batch is due even without frames.
        self._is_due = False
        self._wants_ack = False
        self._is_closed = False
        self._sending = CoalescedCalls(self._run, f"kue-bus-to-{node}")
        #: Done when there is something to send again.
        self._wakeup: asyncio.Future[None] | None = None

    @property
    def is_crowded(self) -> bool:
        """Whether more than half of the room is taken."""
        return len(self._waiting) > MAX_FRAMES // 2 or self._bytes > MAX_BYTES // 2

    @property
    def unacknowledged(self) -> int:
        """How many frames were sent and not acknowledged yet."""
        return self._number - self._acknowledged

    @property
    def end(self) -> tuple[str, int] | None:
        """The stream, and the last number sent in it."""
        if self._number:
            return self._stream, self._number
        return self._previous if self._before is None else self._before.end

    def put(self, frame: Frame) -> bool:
        """Queue a frame; return False if there is no room."""
        bytes_ = size(frame)
        if len(self._waiting) >= MAX_FRAMES or self._bytes + bytes_ > MAX_BYTES:
            return False
        self._bytes += bytes_
        self._waiting.append(frame)
        self._wake()
        return True

    def send_ack(self, *, wants_ack: bool = False) -> None:
        """Send an acknowledgement, and the number of the next frame."""
        self._is_due = True
        self._wants_ack |= wants_ack
        self._wake()

    def acknowledge(self, stream: str, number: int) -> None:
        """Handle an acknowledgement of frames up to a number."""
        if stream != self._stream or not self._acknowledged < number <= self._number:
            return
        self._acknowledged = number
        while self._sent and self._sent[0][0] <= number:
            self._sent_bytes -= self._sent.popleft()[1]
        self._wake()

    async def flush(self) -> None:
        """Wait until everything is sent."""
        await self._sending.finish()

    async def close(self) -> list[Frame]:
        """Drop the node; return what it has certainly not received."""
        self._is_closed = True
        self._wake()
        await self.flush()
        unseen = list(self._waiting)
        self._waiting.clear()
        return unseen

    async def abandon(self) -> None:
        """Stop at once; nothing more is sent."""
        self._is_closed = True
        await self._sending.cancel()

    @property
    def _is_full(self) -> bool:
        """Whether a full window is unacknowledged."""
        return self.unacknowledged >= WINDOW_FRAMES or self._sent_bytes >= WINDOW_BYTES

    def _wake(self) -> None:
        if self._wakeup is not None:
            # Another frame changes nothing: the window is as full as before.
            is_due = self._is_due or self._is_closed or not self._is_full
            if is_due and not self._wakeup.done():
                self._wakeup.set_result(None)
        elif self._waiting or self._is_due:
            self._sending.start()

    async def _run(self) -> None:
        if self._before is not None:
            # What it still sends must not come after the first batch of this one.
            await self._before.flush()
            self._previous, self._before = self._before.end, None
        while not self._is_closed:
            if self._is_due or (self._waiting and not self._is_full):
                await self._send_some()
            elif self._waiting:
                await self._wait_for_ack()
            else:
                return

    async def _wait_for_ack(self) -> None:
        loop = asyncio.get_running_loop()
        self._wakeup = loop.create_future()
        # Its acknowledgement may have been lost.
        timer = loop.call_later(_ASK_SECONDS, lambda: self.send_ack(wants_ack=True))
        try:
            await self._wakeup
        finally:
            timer.cancel()
            self._wakeup = None

    async def _send_some(self) -> None:
        frames = [] if self._is_full else self._take()
        wants_ack, self._wants_ack = self._wants_ack, False
        self._is_due = False
        batch = pack(
            Batch(
                self._sender,
                self._stream,
                self._number + 1,
                frames,
                self._ack(),
                wants_ack,
                self._previous if self._number == 0 else None,
            )
        )
        self._number += len(frames)
        if frames:
            self._sent.append((self._number, len(batch)))
            self._sent_bytes += len(batch)
        is_unseen = True
        while not self._is_closed:
            try:
                if await self._send(batch) or not frames:
                    return
            except StoreError:
                # It may have been published all the same.
                is_unseen = False
                if not frames:
                    return
            await asyncio.sleep(_PAUSE_SECONDS)
        if is_unseen:
            self._waiting.extendleft(reversed(frames))
            self._number -= len(frames)

    def _take(self) -> list[Frame]:
        frames: list[Frame] = []
        total = 0
        while self._waiting and len(frames) < BATCH_FRAMES:
            bytes_ = size(self._waiting[0])
            total += bytes_
            if frames and total > BATCH_BYTES:
                break
            self._bytes -= bytes_
            frames.append(self._waiting.popleft())
        return frames
