"""
The event bus: messages to addresses, within a process or between nodes of a cluster.

Delivery is at most once: what must not be missed is read from the store.  Messages of
one sender reach one consumer in the order they were sent.  A consumer that fails, lags
or goes away does not affect others.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

from kue.aio.loop_calls import await_in
from kue.bus import frames
from kue.bus.address_consumers import AddressConsumers
from kue.bus.codecs import Codecs
from kue.bus.consumer import DEFAULT_BUFFER, Consumer
from kue.bus.errors import BusClosed, FailureKind, RequestFailed, no_handlers, timed_out
from kue.bus.headers import Headers
from kue.bus.interceptors import InterceptorChain
from kue.bus.message import DEFAULT_TIMEOUT, MAX_ADDRESS, MAX_TIMEOUT, Message
from kue.bus.metrics import BusMetrics
from kue.bus.requests import PREFIX, PendingRequests
from kue.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kue.bus.cluster import ClusterManager
    from kue.bus.consumer import ConsumerContext, Handler
    from kue.bus.frames import Frame
    from kue.bus.headers import Given
    from kue.bus.requests import PendingRequest

logger = logging.getLogger(__name__)

#: Addresses with a round-robin position; beyond that, all positions are reset.
_MAX_TURNS = 100_000


class EventBus:
    """
    A bus of one process or, with *cluster*, one node of a bus of many.

    A local bus is open from the start, one with a cluster from `start` on.  Messages
    may be sent from any thread; a consumer belongs to the event loop it is made in.
    Messages to other nodes have at most *max_size* bytes of body and headers.
    """

    #: The loop that joined the cluster; set by `start`.
    _loop: asyncio.AbstractEventLoop

    def __init__(
        self, cluster: ClusterManager | None = None, *, max_size: int = frames.MAX_SIZE
    ) -> None:
        if not 1 <= max_size <= frames.LARGEST_SIZE:
            raise ValueError(
                f"max_size must be 1 to {frames.LARGEST_SIZE:,}, not {max_size}"
            )
        #: Copies and encodes bodies.
        self.codecs = Codecs()
        #: Interceptors of messages being sent, replies included.
        self.outbound = InterceptorChain()
        #: Interceptors in the loop of the consumer or the requester.
        self.inbound = InterceptorChain()
        #: The cluster manager, if there is one.
        self.cluster = cluster
        self._max_size = max_size
        self._is_open = cluster is None
        self._table: dict[str, AddressConsumers] = {}
        self._requests = PendingRequests()
        #: Counters of messages by address.
        self.meter = BusMetrics(self.outbound, self._requests)
        self._counts = self.meter.counts
        #: Round-robin position among the nodes, by address.
        self._turns: dict[str, int] = {}
        #: Held while consumers register and unregister; messages need no lock.
        self._lock = threading.Lock()

    async def start(self) -> None:
        """Join the cluster, if there is one."""
        if self.cluster is not None and not self._is_open:
            self._loop = asyncio.get_running_loop()
            await self.cluster.join(self)
            self._requests.use_node(self.cluster.node)
            self._is_open = True

    async def close(self) -> None:
        """Unregister all consumers, fail pending requests, and leave the cluster."""
        if not self._is_open:
            return
        consumers = [each for entry in self._table.values() for each in entry.all]
        here = asyncio.get_running_loop()
        for consumer in consumers:
            if consumer.loop is here:
                await consumer.stop()
            else:
                consumer.unregister()
        self._is_open = False
        self._requests.end()
        if self.cluster is not None:
            await await_in(self._loop, self.cluster.leave())

    async def __aenter__(self) -> EventBus:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def node(self) -> str:
        """The name of this node; empty when there is no cluster."""
        return "" if self.cluster is None else self.cluster.node

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes of the cluster; none when there is no cluster."""
        return frozenset() if self.cluster is None else self.cluster.nodes

    def publish(
        self,
        address: str,
        body: Any = None,
        *,
        headers: Given | None = None,
        codec: str | None = None,
        local: bool = False,
    ) -> None:
        """Send to every consumer of *address*; with *local*, of this node only."""
        message = self._message(address, body, headers, codec)
        message.is_send = False
        self._counts[address].sent += 1
        self._dispatch(message, local)

    def send(
        self,
        address: str,
        body: Any = None,
        *,
        headers: Given | None = None,
        codec: str | None = None,
        local: bool = False,
    ) -> None:
        """Send to one consumer of *address*, round robin among nodes and consumers."""
        message = self._message(address, body, headers, codec)
        self._counts[address].sent += 1
        self._dispatch(message, local)

    async def request(
        self,
        address: str,
        body: Any = None,
        *,
        timeout: float = DEFAULT_TIMEOUT,
        headers: Given | None = None,
        codec: str | None = None,
        local: bool = False,
    ) -> Message:
        """
        Send to one consumer of *address* and return its reply.

        Raises:
            RequestFailed: There is no reply; its kind is the reason.
        """
        if not 0 < timeout <= MAX_TIMEOUT:
            raise ValueError(
                f"timeout must be more than 0 and at most {MAX_TIMEOUT} seconds, "
                f"not {timeout}"
            )
        message = self._message(address, body, headers, codec)
        pending = self._requests.open(address, timeout, self.inbound)
        message.reply_address = pending.reply_address
        counts = self._counts[address]
        counts.sent += 1
        try:
            if self.cluster is not None and not local:
                await self._look_up(self.cluster, pending, timeout)
            self._dispatch(message, local)
            reply = await pending.future
            counts.answered(pending.waited)
            return reply
        except RequestFailed as exc:
            counts.failed(exc.kind)
            raise
        finally:
            self._requests.close(pending)

    def consumer(
        self,
        address: str,
        handler: Handler | None = None,
        *,
        local: bool = False,
        buffer: int = DEFAULT_BUFFER,
        concurrency: int = 1,
        home: ConsumerContext | None = None,
    ) -> Consumer:
        """
        Register a consumer of *address*, in the running loop or in *home*.

        With *local*, it receives only messages of this node.  With *concurrency*, that
        many runs of an async handler overlap; they begin in order.
        """
        self._check(address)
        consumer = Consumer(
            address,
            handler,
            is_local=local,
            buffer=buffer,
            concurrency=concurrency,
            inbound=self.inbound,
            on_unregister=self._remove,
            home=home,
        )
        with self._lock:
            entry = self._table.get(address)
            if entry is None:
                entry = self._table[address] = AddressConsumers(self._counts[address])
            entry.add(consumer)
            if self.cluster is not None and not local:
                if entry.announced is None:
                    entry.announced = self.cluster.announce(address)
                consumer.announced = entry.announced
        return consumer

    async def flush(self) -> None:
        """Wait until everything sent and announced so far is on its way."""
        if self.cluster is not None:
            await await_in(self._loop, self.cluster.flush())

    def consumers(self) -> dict[str, int]:
        """Return how many consumers each address has on this node."""
        return {address: len(entry.all) for address, entry in self._table.items()}

    def is_heard(self, address: str) -> bool:
        """Return whether *address* is known to have a consumer, on any node."""
        return address in self._table or (
            self.cluster is not None and bool(self.cluster.registrations(address))
        )

    @property
    def waiting(self) -> int:
        """How many requests wait for a reply."""
        return len(self._requests)

    # Called by the cluster manager; see `ClusterMember`.

    def addresses(self) -> Collection[str]:
        with self._lock:
            return [at for at, entry in self._table.items() if entry.announced]

    def receive(self, frame: Frame) -> None:
        try:
            message = frames.message(frame, self, self.codecs)
            found = self._deliver(message, is_remote=True)
        except Exception as exc:
            self._report_unreadable(frame, exc)
            return
        if not found:
            self._reply_failure(frame.reply_address, no_handlers(frame.address))

    def undelivered(self, frame: Frame) -> None:
        # The receiver of a published message, or of this reply, is gone.
        if frame.address.startswith(PREFIX):
            self._reply_failure(frame.reply_address, no_handlers(frame.address))
        elif frame.is_send:
            pending = self._requests.get(frame.reply_address or "")
            if pending is not None:
                # It may be handled here now.
                pending.node = ""
            try:
                self._route(frames.message(frame, self, self.codecs), local=False)
            except Exception as exc:
                self._report_unreadable(frame, exc)

    def requests_to(self, node: str) -> Sequence[PendingRequest]:
        return self._requests.to_node(node)

    def node_left(self, node: str, requests: Sequence[PendingRequest]) -> None:
        self._requests.node_left(node, requests)

    def given_up(self, frame: Frame, reason: str) -> None:
        failure = RequestFailed(reason, kind=FailureKind.ERROR)
        self._reply_failure(frame.reply_address, failure)

    def answer(
        self,
        reply_address: str,
        body: Any = None,
        *,
        headers: Given | None = None,
        codec: str | None = None,
    ) -> None:
        """Send a reply; after the bus was closed, nothing happens."""
        if self._is_open:
            self._dispatch(self._message(reply_address, body, headers, codec), False)

    def _report_unreadable(self, frame: Frame, exc: Exception) -> None:
        """Report a message that a codec, maybe a user's, could not decode or copy."""
        logger.error("a message to %s cannot be read: %s", frame.address, exc)
        text = f"The message to {frame.address} cannot be read there: {exc}"
        failure = RequestFailed(text, kind=FailureKind.ERROR)
        self._reply_failure(frame.reply_address, failure)

    def _message(
        self, address: str, body: Any, headers: Given | None, codec: str | None
    ) -> Message:
        self._check(address)
        return Message(
            self,
            address,
            body,
            self.codecs.choose(body, codec),
            headers=None if headers is None else Headers(headers),
        )

    def _check(self, address: str) -> None:
        if not self._is_open:
            raise BusClosed("the bus is not open; start it, or create another")
        if type(address) is not str or not 0 < len(address) <= MAX_ADDRESS:
            raise ValueError(
                f"an address must be text of 1 to {MAX_ADDRESS} characters, "
                f"not {address!r:.80}"
            )

    def _dispatch(self, message: Message, local: bool) -> None:
        if self.outbound.links:
            self.outbound.run(message, lambda: self._route(message, local))
        else:
            self._route(message, local)

    def _route(self, message: Message, local: bool) -> None:
        if self.cluster is not None and not local:
            found = self._route_in_cluster(self.cluster, message)
        else:
            found = self._deliver(message)
        if not found:
            self._reply_failure(message.reply_address, no_handlers(message.address))

    def _route_in_cluster(self, cluster: ClusterManager, message: Message) -> bool:
        address = message.address
        if address.startswith(PREFIX):
            return self._route_reply(cluster, message)
        nodes = cluster.registrations(address)
        if not nodes:
            return self._deliver(message)
        if not message.is_send:
            frame = frames.frame(message, self._max_size)
            for node in nodes:
                cluster.post(node, frame)
            self._deliver(message)
            return True
        # This node comes last, if it has consumers.
        turn = self._turns.get(address, 0) % (len(nodes) + (address in self._table))
        if len(self._turns) >= _MAX_TURNS:
            self._turns.clear()
        self._turns[address] = turn + 1
        if turn == len(nodes):
            return self._deliver(message)
        self._post(cluster, nodes[turn], message)
        return True

    def _route_reply(self, cluster: ClusterManager, message: Message) -> bool:
        node, _, _ = message.address.removeprefix(PREFIX).rpartition(".")
        if node == cluster.node:
            return self._deliver(message)
        if node not in cluster.nodes:
            return False
        self._post(cluster, node, message)
        return True

    def _post(self, cluster: ClusterManager, node: str, message: Message) -> None:
        pending = self._requests.get(message.reply_address or "")
        if pending is not None:
            pending.node = node
        cluster.post(node, frames.frame(message, self._max_size))

    def _deliver(self, message: Message, *, is_remote: bool = False) -> bool:
        """Deliver to consumers here; return whether there is one."""
        entry = self._table.get(message.address)
        if entry is None:
            # Removed: a second reply will not find it.
            pending = self._requests.pop(message.address, None)
            if pending is not None:
                pending.answer(message.own())
            return pending is not None
        consumers = entry.reachable if is_remote else entry.all
        if not consumers:
            return False
        entry.counts.received += 1
        if message.is_send:
            entry.next_of(consumers).deliver(message.own())
        else:
            for consumer in consumers:
                consumer.deliver(message.copy())
        return True

    def _reply_failure(self, reply_address: str | None, failure: RequestFailed) -> None:
        """Reply with a failure, if the message was a request."""
        if reply_address is not None:
            self.answer(reply_address, failure)

    def _remove(self, consumer: Consumer) -> None:
        with self._lock:
            entry = self._table.get(consumer.address)
            if entry is None or consumer not in entry:
                # Another thread was first.
                return
            entry.remove(consumer)
            if entry.is_empty:
                del self._table[consumer.address]
            if entry.announced is not None and entry.is_local:
                entry.announced = None
                assert self.cluster is not None
                self.cluster.withdraw(consumer.address)

    async def _look_up(
        self, cluster: ClusterManager, pending: PendingRequest, timeout: float
    ) -> None:
        """Ask the cluster about an address that is not known to have a consumer."""
        address = pending.address
        if self.is_heard(address) or address.startswith(PREFIX):
            return
        try:
            async with asyncio.timeout(timeout):
                await await_in(self._loop, cluster.look_up(address))
        except TimeoutError:
            raise timed_out(timeout, pending.reply_address, address) from None
        except StoreError as exc:
            text = f"The cluster cannot be asked about {address}: {exc}"
            raise RequestFailed(text, kind=FailureKind.ERROR) from exc
