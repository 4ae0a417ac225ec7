"""Pending requests: replies, failures and timeouts."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kue.aio.loop_calls import call_in, hand_over, running
from kue.bus.errors import FailureKind, RequestFailed, node_lost, timed_out

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.bus.interceptors import InterceptorChain
    from kue.bus.message import Message

PREFIX = "__vertx.reply."
#: Timeouts whose requests share a timer.
_MAX_QUEUES = 64


@dataclass(slots=True, eq=False)
class PendingRequest:
    """One request.  It is settled in the loop that waits, from any thread."""

    address: str
    reply_address: str
    inbound: InterceptorChain
    queue: RequestTimeouts
    #: By the clock of the loop.
    deadline: float
    future: asyncio.Future[Message]
    #: The node it was sent to, when that is another.
    node: str = ""

    @property
    def waited(self) -> float:
        """How many seconds it has waited."""
        return self.queue.loop.time() - self.deadline + self.queue.timeout

    def answer(self, message: Message) -> None:
        """Hand over the reply, from any thread."""
        # Not `call_in`: this is done for each request.
        if running() is self.queue.loop:
            self._take(message)
        else:
            hand_over(self.queue.loop, self._take, message)

    def fail(self, failure: RequestFailed) -> None:
        """Hand over the failure, from any thread."""
        call_in(self.queue.loop, self._fail, failure)

    def _take(self, message: Message) -> None:
        if self.inbound.links:
            self.inbound.run(message, lambda: self._settle(message))
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


@dataclass(slots=True, eq=False)
class RequestTimeouts:
    """
    The requests of one loop that wait equally long, the oldest first.

    They share one timer: a timer per request was a seventh of the cost of a request.
    """

    loop: asyncio.AbstractEventLoop
    timeout: float
    #: Whether other requests share it; else it ends with its only request.
    is_shared: bool = True
    _pending: dict[PendingRequest, None] = field(default_factory=dict)
    _timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        return self._timer is None or self.loop.is_closed()

    def add(self, pending: PendingRequest) -> None:
        self._pending[pending] = None
        if self._timer is None:
            self._timer = self.loop.call_at(pending.deadline, self._expire)

    def remove(self, pending: PendingRequest) -> None:
        self._pending.pop(pending, None)
        if not self.is_shared:
            self.stop()

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


class PendingRequests(dict[str, PendingRequest]):
    """All pending requests of one bus, by reply address."""

    def __init__(self) -> None:
        super().__init__()
        #: By loop and timeout.
        self._queues: dict[tuple[object, float], RequestTimeouts] = {}
        self._numbers = itertools.count(1)
        self._prefix = PREFIX

    def use_node(self, node: str) -> None:
        """Put the name of this node into reply addresses."""
        self._prefix = f"{PREFIX}{node}."

    def open(
        self, address: str, timeout: float, inbound: InterceptorChain
    ) -> PendingRequest:
        reply_address = f"{self._prefix}{next(self._numbers)}"
        loop = asyncio.get_running_loop()
        queue = self._queues.get((loop, timeout))
        if queue is None:
            queue = self._new_queue(loop, timeout)
        pending = PendingRequest(
            address,
            reply_address,
            inbound,
            queue,
            deadline=loop.time() + timeout,
            future=loop.create_future(),
        )
        queue.add(pending)
        self[reply_address] = pending
        return pending

    def close(self, pending: PendingRequest) -> None:
        """Forget a request, answered or not."""
        pending.queue.remove(pending)
        self.pop(pending.reply_address, None)

    def to_node(self, node: str) -> list[PendingRequest]:
        """Return the requests that wait for a reply of a node."""
        return [pending for pending in list(self.values()) if pending.node == node]

    def node_left(self, node: str, requests: Iterable[PendingRequest]) -> None:
        """Fail requests to a node that is gone."""
        for pending in requests:
            pending.fail(node_lost(node, pending.reply_address, pending.address))

    def end(self) -> None:
        """Fail all requests."""
        for pending in list(self.values()):
            pending.fail(RequestFailed("The bus was closed", kind=FailureKind.ERROR))
        for queue in list(self._queues.values()):
            call_in(queue.loop, queue.stop)

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
        return self._queues.setdefault((loop, timeout), RequestTimeouts(loop, timeout))
