"""Requests that wait for their reply."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from kue.bus.failures import RequestFailed, closed, node_lost, timed_out
from kue.bus.loops import hand_over, running

if TYPE_CHECKING:
    from kue.bus.interceptors import Chain
    from kue.bus.message import Message

PREFIX = "__vertx.reply."


class Pending:
    """One request.  Everything but `answer` happens on the loop that waits."""

    __slots__ = (
        "_inbound",
        "address",
        "future",
        "loop",
        "node",
        "reply_address",
        "timer",
    )

    def __init__(
        self, address: str, reply_address: str, inbound: Chain, timeout: float
    ) -> None:
        self._inbound = inbound
        self.address = address
        self.reply_address = reply_address
        #: The node that was asked, when it is another.
        self.node = ""
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Message] = self.loop.create_future()
        self.timer = self.loop.call_later(timeout, self._time_out, timeout)

    def answer(self, message: Message) -> None:
        """Hand over the reply, from any thread."""
        if running() is self.loop:
            self._take(message)
        else:
            hand_over(self.loop, self._take, message)

    def fail(self, failure: RequestFailed) -> None:
        """Hand over why there will be none, from any thread."""
        if running() is self.loop:
            self._fail(failure)
        else:
            hand_over(self.loop, self._fail, failure)

    def _take(self, message: Message) -> None:
        if self._inbound:
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

    def _time_out(self, timeout: float) -> None:
        self._fail(timed_out(timeout, self.reply_address, self.address))


class Requests:
    """All requests of one bus that wait, by reply address."""

    def __init__(self) -> None:
        self._pending: dict[str, Pending] = {}
        self._numbers = itertools.count(1)
        self._prefix = PREFIX

    def belong_to(self, node: str) -> None:
        """Have reply addresses name the node that waits at them."""
        self._prefix = f"{PREFIX}{node}."

    def __len__(self) -> int:
        return len(self._pending)

    def open(self, address: str, timeout: float, inbound: Chain) -> Pending:
        reply_address = f"{self._prefix}{next(self._numbers)}"
        pending = Pending(address, reply_address, inbound, timeout)
        self._pending[reply_address] = pending
        return pending

    def close(self, pending: Pending) -> None:
        """Forget a request, answered or not."""
        pending.timer.cancel()
        self._pending.pop(pending.reply_address, None)

    def find(self, reply_address: str) -> Pending | None:
        return self._pending.get(reply_address)

    def take(self, reply_address: str) -> Pending | None:
        """Return the request that waits there, which no second reply will find."""
        return self._pending.pop(reply_address, None)

    def lose(self, node: str) -> None:
        """Fail what waits for a node that is gone."""
        for pending in list(self._pending.values()):
            if pending.node == node:
                pending.fail(node_lost(node, pending.reply_address, pending.address))

    def end(self) -> None:
        """Fail all there are."""
        for pending in list(self._pending.values()):
            pending.fail(closed())


def node_of(reply_address: str) -> str:
    """Return the node that waits at a reply address; empty if it names none."""
    if not reply_address.startswith(PREFIX):
        return ""
    node, _, _ = reply_address[len(PREFIX) :].rpartition(".")
    return node
