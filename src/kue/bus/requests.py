"""Pending requests: replies, failures and timeouts."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from kue.aio.thread_calls import hand_over, running
from kue.bus.errors import RequestFailed, closed, node_lost, timed_out

if TYPE_CHECKING:
    from kue.bus.interceptors import InterceptorChain
    from kue.bus.message import Message

PREFIX = "__vertx.reply."
#: Timeouts whose requests share a timer.
_MAX_QUEUES = 64


class PendingRequest:
    """One request.  It is settled in the loop that waits, from any thread."""

    __slots__ = (
        "_inbound",
        "address",
        "deadline",
        "future",
        "loop",
        "node",
        "queue",
        "reply_address",
    )

    def __init__(
        self,
        address: str,
        reply_address: str,
        inbound: InterceptorChain,
        queue: RequestTimeouts,
    ) -> None:
        self._inbound = inbound
        self.address = address
        self.reply_address = reply_address
        #: The node it was sent to, when that is another.
        self.node = ""
        self.queue = queue
        self.loop = loop = queue.loop
        self.deadline = loop.time() + queue.timeout
        self.future: asyncio.Future[Message] = loop.create_future()

    @property
    def waited(self) -> float:
        """How many seconds it has waited."""
        return self.loop.time() - self.deadline + self.queue.timeout

    def answer(self, message: Message) -> None:
        """Hand over the reply, from any thread."""
        if running() is self.loop:
            self._take(message)
        else:
            hand_over(self.loop, self._take, message)

    def fail(self, failure: RequestFailed) -> None:
        """Hand over the failure, from any thread."""
        if running() is self.loop:
            self._fail(failure)
        else:
            hand_over(self.loop, self._fail, failure)

    def _take(self, message: Message) -> None:
        if self._inbound.links:
            self._inbound.run(message, lambda: self._settle(message))
        else:
            self._settle(message)

    def _settle(self, message: Message) -> None:
        body = message.body
        if isinstance(body, RequestFailed):
            self._fail(body)
        elif not self.future.done():
            self.future.set_result(message)

    def _fail(self, failure: RequestFailed) -> None:
        if not self.future.done():
            self.future.set_exception(failure)


class RequestTimeouts:
    """
    The requests of one loop that wait equally long, the oldest first.

    They share one timer: a timer per request was a seventh of the cost of a request.
    """

    __slots__ = ("_pending", "_timer", "is_shared", "loop", "timeout")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, timeout: float, *, is_shared: bool
    ) -> None:
        self.loop = loop
        self.timeout = timeout
        #: Whether other requests share it; else it ends with its only request.
        self.is_shared = is_shared
        self._pending: dict[PendingRequest, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        return self._timer is None or self.loop.is_closed()

    def add(self, pending: PendingRequest) -> None:
        self._pending[pending] = None
        if self._timer is None:
            self._timer = self.loop.call_at(pending.deadline, self._expire)

    def remove(self, pending: PendingRequest) -> None:
        self._pending.pop(pending, None)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        """Fail the requests whose deadline has passed, and wait for the next."""
        self._timer = None
        now = self.loop.time()
        expired: list[PendingRequest] = []
        for pending in self._pending:
            if pending.deadline > now:
                self._timer = self.loop.call_at(pending.deadline, self._expire)
                break
            expired.append(pending)
        for pending in expired:
            del self._pending[pending]
            pending.fail(
                timed_out(self.timeout, pending.reply_address, pending.address)
            )


class PendingRequests:
    """All pending requests of one bus, by reply address."""

    def __init__(self) -> None:
        self._pending: dict[str, PendingRequest] = {}
        self._queues: dict[
            tuple[asyncio.AbstractEventLoop, float], RequestTimeouts
        ] = {}
        self._numbers = itertools.count(1)
        self._prefix = PREFIX

    def use_node(self, node: str) -> None:
        """Put the name of this node into reply addresses."""
        self._prefix = f"{PREFIX}{node}."

    def __len__(self) -> int:
        return len(self._pending)

    def open(
        self, address: str, timeout: float, inbound: InterceptorChain
    ) -> PendingRequest:
        reply_address = f"{self._prefix}{next(self._numbers)}"
        loop = asyncio.get_running_loop()
        queue = self._queues.get((loop, timeout))
        if queue is None:
            queue = self._new_queue(loop, timeout)
        pending = PendingRequest(address, reply_address, inbound, queue)
        queue.add(pending)
        self._pending[reply_address] = pending
        return pending

    def close(self, pending: PendingRequest) -> None:
        """Forget a request, answered or not."""
        queue = pending.queue
        queue.remove(pending)
        if not queue.is_shared:
            queue.stop()
        self._pending.pop(pending.reply_address, None)

    def find(self, reply_address: str) -> PendingRequest | None:
        return self._pending.get(reply_address)

    def take(self, reply_address: str) -> PendingRequest | None:
        """Return and remove the request; a second reply will not find it."""
        return self._pending.pop(reply_address, None)

    def node_left(self, node: str) -> None:
        """Fail the requests that wait for a node that is gone."""
        for pending in list(self._pending.values()):
            if pending.node == node:
                pending.fail(node_lost(node, pending.reply_address, pending.address))

    def end(self) -> None:
        """Fail all requests."""
        for pending in list(self._pending.values()):
            pending.fail(closed())
        here = running()
        for queue in list(self._queues.values()):
            if queue.loop is here:
                queue.stop()
            else:
                hand_over(queue.loop, queue.stop)

    def _new_queue(
        self, loop: asyncio.AbstractEventLoop, timeout: float
    ) -> RequestTimeouts:
        # A caller with ever new timeouts must not leave a queue behind for each.
        if len(self._queues) >= _MAX_QUEUES:
            for key, queue in list(self._queues.items()):
                if queue.is_idle:
                    del self._queues[key]
        if len(self._queues) >= _MAX_QUEUES:
            return RequestTimeouts(loop, timeout, is_shared=False)
        queue = self._queues[loop, timeout] = RequestTimeouts(
            loop, timeout, is_shared=True
        )
        return queue


def node_of(reply_address: str) -> str:
    """Return the node that a reply address names; empty if it names none."""
    if not reply_address.startswith(PREFIX):
        return ""
    node, _, _ = reply_address[len(PREFIX) :].rpartition(".")
    return node
