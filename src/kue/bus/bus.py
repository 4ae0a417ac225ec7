"""
The event bus: messages to addresses, within a process or between nodes of a cluster.

Delivery is at most once: what must not be missed is read from the store.  Messages of
one sender reach one consumer in the order they were sent.  A consumer that fails, lags
or goes away harms nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, Any

from kue.aio.thread_calls import running
from kue.bus import frames
from kue.bus.address_table import AddressConsumers
from kue.bus.codecs import Codecs
from kue.bus.consumer import DEFAULT_BUFFER, Consumer
from kue.bus.errors import BusClosed, FailureKind, RequestFailed, no_handlers, timed_out
from kue.bus.headers import Headers
from kue.bus.interceptors import InterceptorChain
from kue.bus.message import DEFAULT_TIMEOUT, MAX_ADDRESS, MAX_TIMEOUT, Message
from kue.bus.metrics import BusMetrics
from kue.bus.requests import PREFIX, PendingRequests, node_of
from kue.model.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine
    from types import TracebackType

    from kue.bus.cluster import ClusterManager
    from kue.bus.consumer import Handler
    from kue.bus.consumer_context import ConsumerContext
    from kue.bus.frames import Frame
    from kue.bus.headers import Given
    from kue.bus.requests import PendingRequest

logger = logging.getLogger(__name__)

#: Addresses of which it is known whose turn it is; then all begin anew.
_MAX_TURNS = 100_000


class EventBus:
    """
    A bus of one process or, with *cluster*, one node of a bus of many.

    A local bus is open from the start, one with a cluster from `start` on.  Messages
    may be sent from any thread; a consumer belongs to the event loop it is made in.
    What is sent to another node has at most *max_size* bytes of body and headers.
    """

    def __init__(
        self, cluster: ClusterManager | None = None, *, max_size: int = frames.MAX_SIZE
    ) -> None:
        if not 1 <= max_size <= frames.LARGEST_SIZE:
            raise ValueError(
                f"max_size is 1 to {frames.LARGEST_SIZE:,}, not {max_size}"
            )
        #: How bodies are copied and written.
        self.codecs = Codecs()
        #: What messages pass when they are sent, replies included.
        self.outbound = InterceptorChain()
        #: What they pass in the loop of the consumer, or of who asked.
        self.inbound = InterceptorChain()
        self._cluster = cluster
        self._max_size = max_size
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_open = cluster is None
        self._places: dict[str, AddressConsumers] = {}
        self._requests = PendingRequests()
        #: What passes, counted by address.
        self.meter = BusMetrics(self.outbound, self._requests)
        self._tallies = self.meter.tallies
        #: Whose turn it is among the nodes, by address.
        self._turns: dict[str, int] = {}
        #: Held while consumers come and go; messages need no lock.
        self._lock = threading.Lock()

    async def start(self) -> None:
        """Join the cluster, if there is one."""
        if self._cluster is not None and not self._is_open:
            self._loop = asyncio.get_running_loop()
            await self._cluster.join(self)
            self._requests.belong_to(self._cluster.node)
            self._is_open = True

    async def close(self) -> None:
        """Unregister everyone, fail the requests that wait, and leave the cluster."""
        if not self._is_open:
            return
        consumers = [each for place in self._places.values() for each in place.all]
        here = asyncio.get_running_loop()
        for consumer in consumers:
            if consumer.loop is here:
                await consumer.stop()
            else:
                consumer.unregister()
        self._is_open = False
        self._requests.end()
        if self._cluster is not None:
            await self._there(self._cluster.leave())

    async def __aenter__(self) -> EventBus:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def cluster(self) -> ClusterManager | None:
        """What joins it with other nodes, if something does."""
        return self._cluster

    @property
    def node(self) -> str:
        """The name of this node; empty when there is no cluster."""
        return "" if self._cluster is None else self._cluster.node

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes of the cluster; none when there is no cluster."""
        return frozenset() if self._cluster is None else self._cluster.nodes

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
        self._tallies[address].sent += 1
        self._let_go(message, local)

    def send(
        self,
        address: str,
        body: Any = None,
        *,
        headers: Given | None = None,
        codec: str | None = None,
        local: bool = False,
    ) -> None:
        """Send to one consumer of *address*: they take turns, and so do nodes."""
        message = self._message(address, body, headers, codec)
        self._tallies[address].sent += 1
        self._let_go(message, local)

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
            RequestFailed: There is none; its kind says why.
        """
        if not 0 < timeout <= MAX_TIMEOUT:
            raise ValueError(
                f"timeout must be more than 0 and at most {MAX_TIMEOUT} seconds, "
                f"not {timeout}"
            )
        message = self._message(address, body, headers, codec)
        pending = self._requests.open(address, timeout, self.inbound)
        message.reply_address = pending.reply_address
        tally = self._tallies[address]
        tally.sent += 1
        try:
            if self._cluster is not None and not local:
                await self._learn(self._cluster, pending, timeout)
            self._let_go(message, local)
            reply = await pending.future
            tally.answered(pending.waited)
            return reply
        except RequestFailed as exc:
            tally.failed(exc.kind)
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
        Listen at *address*, in the loop that runs, or at *home*.

        With *local*, only messages of this node are heard.  With *concurrency*, that
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
            leave=self._remove,
            home=home,
        )
        with self._lock:
            place = self._places.get(address)
            if place is None:
                place = self._places[address] = AddressConsumers(self._tallies[address])
            place.add(consumer)
            if self._cluster is not None and not local:
                if place.announced is None:
                    place.announced = self._cluster.announce(address)
                consumer.announced = place.announced
        return consumer

    async def flush(self) -> None:
        """Wait until what was sent and announced so far is on its way."""
        if self._cluster is not None:
            await self._there(self._cluster.flush())

    def consumers(self) -> dict[str, int]:
        """Return how many consumers each address has on this node."""
        return {address: len(place.all) for address, place in self._places.items()}

    def is_heard(self, address: str) -> bool:
        """Tell whether someone is known to listen at *address*, on whichever node."""
        return address in self._places or (
            self._cluster is not None and bool(self._cluster.registrations(address))
        )

    @property
    def waiting(self) -> int:
        """How many requests wait for their reply."""
        return len(self._requests)

    # What a cluster manager asks; see `cluster.Member`.

    def addresses(self) -> Collection[str]:
        with self._lock:
            return [at for at, place in self._places.items() if place.announced]

    def receive(self, frame: Frame) -> None:
        try:
            message = frames.message(frame, self, self.codecs)
            found = self._deliver(message, is_remote=True)
        except Exception as exc:
            self._cannot(frame, exc)
            return
        if not found:
            self._refuse(frame.reply_address, no_handlers(frame.address))

    def undelivered(self, frame: Frame) -> None:
        # Whoever would have heard what was published, or this reply, is gone.
        if frame.address.startswith(PREFIX):
            self._refuse(frame.reply_address, no_handlers(frame.address))
        elif frame.is_send:
            pending = self._requests.find(frame.reply_address or "")
            if pending is not None:
                # It may be answered here now.
                pending.node = ""
            try:
                self._route(frames.message(frame, self, self.codecs), local=False)
            except Exception as exc:
                self._cannot(frame, exc)

    def node_left(self, node: str) -> None:
        self._requests.lose(node)

    def given_up(self, frame: Frame, reason: str) -> None:
        self._refuse(frame.reply_address, RequestFailed(reason, kind=FailureKind.ERROR))

    def answer(
        self,
        reply_address: str,
        body: Any = None,
        *,
        headers: Given | None = None,
        codec: str | None = None,
    ) -> None:
        """Send a reply; a handler that outlives the bus has nobody to reply to."""
        if self._is_open:
            self._let_go(self._message(reply_address, body, headers, codec), False)

    def _cannot(self, frame: Frame, exc: Exception) -> None:
        """Tell of a message that a codec, maybe a user's, could not read or copy."""
        logger.error("a message to %s cannot be read: %s", frame.address, exc)
        text = f"The message to {frame.address} cannot be read there: {exc}"
        self._refuse(frame.reply_address, RequestFailed(text, kind=FailureKind.ERROR))

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
            raise BusClosed("the bus is not open; start it, or make another")
        if type(address) is not str or not 0 < len(address) <= MAX_ADDRESS:
            raise ValueError(
                f"an address is text of 1 to {MAX_ADDRESS} letters, not {address!r:.80}"
            )

    def _let_go(self, message: Message, local: bool) -> None:
        if self.outbound.links:
            self.outbound.run(message, lambda: self._route(message, local))
        else:
            self._route(message, local)

    def _route(self, message: Message, local: bool) -> None:
        if self._cluster is not None and not local:
            found = self._route_far(self._cluster, message)
        else:
            found = self._deliver(message)
        if not found:
            self._refuse(message.reply_address, no_handlers(message.address))

    def _route_far(self, cluster: ClusterManager, message: Message) -> bool:
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
        # This node comes last, if someone listens here.
        turn = self._turns.get(address, 0) % (len(nodes) + (address in self._places))
        if len(self._turns) >= _MAX_TURNS:
            self._turns.clear()
        self._turns[address] = turn + 1
        if turn == len(nodes):
            return self._deliver(message)
        self._post(cluster, nodes[turn], message)
        return True

    def _route_reply(self, cluster: ClusterManager, message: Message) -> bool:
        node = node_of(message.address)
        if node == cluster.node:
            return self._deliver(message)
        if node not in cluster.nodes:
            return False
        self._post(cluster, node, message)
        return True

    def _post(self, cluster: ClusterManager, node: str, message: Message) -> None:
        if message.reply_address is not None:
            pending = self._requests.find(message.reply_address)
            if pending is not None:
                pending.node = node
        cluster.post(node, frames.frame(message, self._max_size))

    def _deliver(self, message: Message, *, is_remote: bool = False) -> bool:
        """Hand a message to who listens here; tell whether there is someone."""
        place = self._places.get(message.address)
        if place is None:
            pending = self._requests.take(message.address)
            if pending is not None:
                pending.answer(message.own())
            return pending is not None
        consumers = place.reachable if is_remote else place.all
        if not consumers:
            return False
        place.tally.received += 1
        if message.is_send:
            place.next_of(consumers).deliver(message.own())
        else:
            for consumer in consumers:
                consumer.deliver(message.copy())
        return True

    def _refuse(self, reply_address: str | None, failure: RequestFailed) -> None:
        """Tell who asked, if someone did, that there will be no reply."""
        if reply_address is not None:
            self.answer(reply_address, failure)

    def _remove(self, consumer: Consumer) -> None:
        with self._lock:
            place = self._places.get(consumer.address)
            if place is None or consumer not in place:
                # Another thread was first.
                return
            place.remove(consumer)
            if place.is_empty:
                del self._places[consumer.address]
            if place.announced is not None and place.is_local:
                place.announced = None
                assert self._cluster is not None
                self._cluster.withdraw(consumer.address)

    async def _learn(
        self, cluster: ClusterManager, pending: PendingRequest, timeout: float
    ) -> None:
        """Ask the cluster about an address where nobody is known to listen."""
        address = pending.address
        if (
            address in self._places
            or cluster.registrations(address)
            or address.startswith(PREFIX)
        ):
            return
        try:
            async with asyncio.timeout(timeout):
                await self._there(cluster.look_up(address))
        except TimeoutError:
            raise timed_out(timeout, pending.reply_address, address) from None
        except StoreError as exc:
            text = f"The cluster cannot be asked about {address}: {exc}"
            raise RequestFailed(text, kind=FailureKind.ERROR) from exc

    async def _there(self, work: Coroutine[Any, Any, object]) -> None:
        """Run what belongs to the loop of the cluster there."""
        if running() is self._loop:
            await work
        else:
            assert self._loop is not None
            asked = asyncio.run_coroutine_threadsafe(work, self._loop)
            await asyncio.wrap_future(asked)
