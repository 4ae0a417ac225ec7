"""
What waits to be sent to one node.

One batch is on its way at a time; what is posted meanwhile makes the next one.  A batch
that found no subscriber is sent again until the node is back or known to be gone: then
nobody has seen it, and it can go to another.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from typing import TYPE_CHECKING

from kue.bus.wire import Batch, Frame, pack
from kue.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

#: What may wait for one node.
MAX_FRAMES = 100_000
MAX_BYTES = 64 * 1024 * 1024
#: What travels together.
BATCH_FRAMES = 1000
BATCH_BYTES = 1024 * 1024
#: How long to wait for a node that does not listen, or a Redis that does not answer.
_PAUSE_SECONDS = 0.05


class Outbox:
    """The way to one node; *send* publishes a batch and returns how many heard it."""

    def __init__(
        self, sender: str, node: str, send: Callable[[bytes], Awaitable[int]]
    ) -> None:
        self._sender = sender
        self._node = node
        self._send = send
        self._waiting: deque[Frame] = deque()
        self._bytes = 0
        # A node that was given up and came back gets a new stream.
        self._stream = secrets.token_hex(4)
        self._number = 0
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None

    def put(self, frame: Frame) -> bool:
        """Take a frame, unless there is no room."""
        size = len(frame.body)
        if len(self._waiting) >= MAX_FRAMES or self._bytes + size > MAX_BYTES:
            return False
        self._bytes += size
        self._waiting.append(frame)
        if self._task is None:
            self._task = asyncio.create_task(
                self._run(), name=f"kue-bus-to-{self._node}"
            )
        return True

    async def flush(self) -> None:
        """Wait until nothing waits."""
        while self._task is not None:
            await asyncio.shield(self._task)

    async def close(self) -> list[Frame]:
        """Give up on the node; return what it has certainly not seen."""
        self._is_closed = True
        await self.flush()
        return list(self._waiting)

    async def abandon(self) -> None:
        """Stop at once; nothing more is sent."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while self._waiting and not self._is_closed:
                await self._send_some()
        finally:
            self._task = None

    async def _send_some(self) -> None:
        frames = self._take()
        self._number += 1
        batch = pack(Batch(self._sender, self._stream, self._number, frames))
        is_unseen = True
        while not self._is_closed:
            try:
                if await self._send(batch):
                    return
            except StoreError:
                # It may have been published all the same.
                is_unseen = False
            await asyncio.sleep(_PAUSE_SECONDS)
        if is_unseen:
            self._waiting.extendleft(reversed(frames))

    def _take(self) -> list[Frame]:
        frames: list[Frame] = []
        size = 0
        while self._waiting and len(frames) < BATCH_FRAMES:
            size += len(self._waiting[0].body)
            if frames and size > BATCH_BYTES:
                break
            frame = self._waiting.popleft()
            self._bytes -= len(frame.body)
            frames.append(frame)
        return frames
