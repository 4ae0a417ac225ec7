"""
What waits to be sent to one node.

One batch is on its way at a time; what is posted meanwhile makes the next one.  A batch
that found no subscriber is sent again until the node is back or known to be gone: then
nobody has seen it, and it can go to another.

No more than a window is sent before the node says that it heard it: a node that does
not keep up is waited for, here and not in Redis, which would cut it off.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from typing import TYPE_CHECKING

from kue.bus.frames import Batch, Frame, pack, size
from kue.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: What may wait for one node.
MAX_FRAMES = 100_000
MAX_BYTES = 64 * 1024 * 1024
#: What travels together.
BATCH_FRAMES = 1000
BATCH_BYTES = 256 * 1024
#: What may be on its way to a node, or one batch more.
WINDOW_FRAMES = 10_000
WINDOW_BYTES = 1024 * 1024
#: How long to wait for a node that does not listen, or a Redis that does not answer.
_PAUSE_SECONDS = 0.05
#: How long to wait for word from a node before it is asked what it heard.
_ASK_SECONDS = 1.0


class NodeOutbox:
    """
    The way to one node.

    *send* publishes a batch and returns how many heard it; *heard* returns how far this
    node has heard the other, which travels along.  *before* is where an earlier outbox
    to the node ended: one that was taken for dead is told what it missed.
    """

    def __init__(
        self,
        sender: str,
        node: str,
        send: Callable[[bytes], Awaitable[int]],
        heard: Callable[[], tuple[str, int] | None] = lambda: None,
        before: tuple[str, int] | None = None,
    ) -> None:
        self._sender = sender
        self._node = node
        self._send = send
        self._heard = heard
        self._before = before
        self._waiting: deque[Frame] = deque()
        self._bytes = 0
        # A node that was given up and came back gets a new stream.
        self._stream = secrets.token_hex(4)
        #: The number of the last frame sent, and of the last that was heard.
        self._number = 0
        self._acknowledged = 0
        #: The batches in between: the number of the last frame, and bytes.
        self._sent: deque[tuple[int, int]] = deque()
        self._sent_bytes = 0
        #: Whether a batch is to be sent though it may have no frames.
        self._is_due = False
        self._asks = False
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None
        #: Done when there is something to do again.
        self._word: asyncio.Future[None] | None = None

    @property
    def is_crowded(self) -> bool:
        """Whether more than half of the room is taken."""
        return len(self._waiting) > MAX_FRAMES // 2 or self._bytes > MAX_BYTES // 2

    @property
    def unsure(self) -> int:
        """How many frames were sent of which the node has not said a word yet."""
        return self._number - self._acknowledged

    @property
    def end(self) -> tuple[str, int] | None:
        """Where it has got to: the stream and the last number that was sent."""
        return (self._stream, self._number) if self._number else self._before

    def put(self, frame: Frame) -> bool:
        """Take a frame, unless there is no room."""
        bytes_ = size(frame)
        if len(self._waiting) >= MAX_FRAMES or self._bytes + bytes_ > MAX_BYTES:
            return False
        self._bytes += bytes_
        self._waiting.append(frame)
        self._go_on()
        return True

    def tell(self, *, asks: bool = False) -> None:
        """Say how far the node was heard, and where the frames for it have got to."""
        self._is_due = True
        self._asks |= asks
        self._go_on()

    def acknowledge(self, stream: str, number: int) -> None:
        """Know that the node has heard frames up to a number."""
        if stream != self._stream or not self._acknowledged < number <= self._number:
            return
        self._acknowledged = number
        while self._sent and self._sent[0][0] <= number:
            self._sent_bytes -= self._sent.popleft()[1]
        self._go_on()

    async def flush(self) -> None:
        """Wait until nothing waits."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def close(self) -> list[Frame]:
        """Give up on the node; return what it has certainly not seen."""
        self._is_closed = True
        self._go_on()
        await self.flush()
        return list(self._waiting)

    async def abandon(self) -> None:
        """Stop at once; nothing more is sent."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def _is_full(self) -> bool:
        """Whether a window is on its way."""
        return self.unsure >= WINDOW_FRAMES or self._sent_bytes >= WINDOW_BYTES

    def _go_on(self) -> None:
        if self._word is not None:
            # A frame more is no reason to look: the window is as full as before.
            is_due = self._is_due or self._is_closed or not self._is_full
            if is_due and not self._word.done():
                self._word.set_result(None)
        elif self._task is None and (self._waiting or self._is_due):
            self._task = asyncio.create_task(
                self._run(), name=f"kue-bus-to-{self._node}"
            )

    async def _run(self) -> None:
        try:
            while not self._is_closed:
                if self._is_due or (self._waiting and not self._is_full):
                    await self._send_some()
                elif self._waiting:
                    await self._hear_word()
                else:
                    return
        finally:
            self._task = None

    async def _hear_word(self) -> None:
        loop = asyncio.get_running_loop()
        self._word = loop.create_future()
        # What it said may have been lost.
        timer = loop.call_later(_ASK_SECONDS, lambda: self.tell(asks=True))
        try:
            await self._word
        finally:
            timer.cancel()
            self._word = None

    async def _send_some(self) -> None:
        frames = [] if self._is_full else self._take()
        asks, self._asks = self._asks, False
        self._is_due = False
        batch = pack(
            Batch(
                self._sender,
                self._stream,
                self._number + 1,
                frames,
                self._heard(),
                asks,
                self._before if self._number == 0 else None,
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
