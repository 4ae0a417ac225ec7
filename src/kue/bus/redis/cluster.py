"""
The cluster manager on Redis: membership, heartbeats, and delivery between nodes.

Every node has a channel and sends heartbeats.  All of them follow one channel of
numbered changes, so that each knows from memory which nodes listen where.  A node that
missed a change, or finds that Redis was down or lost data, reads everything again and
rejoins.

All keys share one hash tag and so live in one slot of a Redis Cluster; channels are
sharded ones, which only that slot's node carries.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from kue.aio.loop_calls import LoopCalls, call_in, running
from kue.aio.retry import short_pause
from kue.aio.tasks import BackgroundTasks
from kue.bus.frames import unpack
from kue.bus.node_table import NodeChange, NodeTable, read_change
from kue.bus.redis import scripts
from kue.bus.redis.failover_duties import RedisAssignments
from kue.bus.redis.inbox import NodeInbox
from kue.bus.redis.node_registration import Membership
from kue.bus.redis.node_status import NodeStatusReporter
from kue.bus.redis.outbox import MAX_FRAMES, NodeOutboxes
from kue.bus.redis.scripts import root_of
from kue.model.errors import StoreError, StoreUnavailable
from kue.store.redis.wire.client import RedisClient
from kue.store.redis.wire.url import read_url

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kue.bus.cluster import ClusterMember
    from kue.bus.frames import Frame

#: Keys, their Redis types and what they hold, for docs/reference/redis-keys.md.
KEYS = (
    ("{kue:bus}:nodes", "zset", "nodes; score = its last heartbeat, ms"),
    ("{kue:bus}:at:<node>", "set", "addresses of its consumers"),
    ("{kue:bus}:number", "string", "number of the last change"),
    ("{kue:bus}:changes", "channel", "number, tab, change as JSON (sharded publish)"),
    (
        "{kue:bus}:to:<node>",
        "channel",
        "batches of messages for a node (sharded publish)",
    ),
    ("{kue:bus}:facts:<node>", "string", "its status, JSON; expires after a lease"),
    ("{kue:bus}:seen", "string", "present while messages are being inspected"),
    ("{kue:bus}:samples", "channel", "sampled messages, JSON (sharded publish)"),
)
logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 1.0
LEASE_SECONDS = 5.0
#: A heartbeat is overdue after so many intervals.
_OVERDUE = 1.5
#: Frames that are handled before other tasks of the loop run.
_BATCH = 64
_BUDGET_SECONDS = 5.0
_LEAVE_SECONDS = 2.0


class RedisCluster:
    """
    A node of the cluster on the Redis at *url* under *prefix*.

    A node is considered dead when it has sent no heartbeat for *lease* seconds, or when
    its connection is gone and a heartbeat is overdue.  All nodes must have the same
    *heartbeat* and *lease*.  A live node that was considered dead rejoins by itself.
    """

    # Set by `join`.
    _loop: asyncio.AbstractEventLoop
    _member: ClusterMember
    #: Done when it joined for the first time, or failed to.
    _joined: asyncio.Future[None]
    #: Frames posted by other threads.
    _cross_thread: LoopCalls[tuple[str, Frame]]

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "kue",
        heartbeat: float = HEARTBEAT_SECONDS,
        lease: float = LEASE_SECONDS,
    ) -> None:
        if not 0 < heartbeat < lease:
            raise ValueError(
                f"heartbeat ({heartbeat}) must be shorter than lease ({lease})"
            )
        self._address = read_url(url)
        self._root = root_of(prefix)
        self._heartbeat = heartbeat
        self._lease = lease
        self.node = secrets.token_hex(8)
        self._table = NodeTable(self.node)
        self._client = RedisClient(self._address, budget_seconds=_BUDGET_SECONDS)
        self._run = partial(scripts.run, self._client, self._root)
        #: Set while Redis has our subscription and our addresses.
        self._is_connected = asyncio.Event()
        self._disconnected_at: float | None = None
        self._background = BackgroundTasks()
        self._inbox = NodeInbox()
        self._outboxes = NodeOutboxes(self.node, self._publish, self._inbox.ack)
        #: When something was last received, by the clock of the loop.
        self._received_at = 0.0
        self._membership = Membership(
            self.node,
            self._run,
            lambda: self._member.addresses(),
            self._is_connected,
        )
        self._watchers: list[Callable[[], object]] = []
        #: Nodes that Redis did not have when it was read, and the end of our wait.
        self._missing: dict[str, float] = {}

    @property
    def lost(self) -> int:
        """How many messages are known to have been lost on the way here."""
        return self._inbox.lost

    @property
    def given_up(self) -> int:
        """How many messages to other nodes found no room."""
        return self._outboxes.given_up

    # -- called by the bus, from any thread -------------------------------------

    @property
    def nodes(self) -> frozenset[str]:
        return self._table.nodes

    def registrations(self, address: str) -> Sequence[str]:
        return self._table.nodes_at(address)

    def announce(self, address: str) -> Future[None]:
        done: Future[None] = Future()
        call_in(self._loop, self._membership.update, address, True, done)
        return done

    def withdraw(self, address: str) -> None:
        call_in(self._loop, self._membership.update, address, False, None)

    def post(self, node: str, frame: Frame) -> None:
        if running() is self._loop:
            self._post(node, frame)
        elif not self._cross_thread.put((node, frame)):
            self._member.given_up(frame, self._outboxes.drop(node, frame))

    # -- joining and leaving ----------------------------------------------------

    async def join(self, member: ClusterMember) -> None:
        self._loop = asyncio.get_running_loop()
        self._cross_thread = LoopCalls(
            self._loop, lambda posted: self._post(*posted), limit=MAX_FRAMES
        )
        self._member = member
        self._joined = self._loop.create_future()
        self._background.start(self._listen(), "kue-bus-listen")
        try:
            async with asyncio.timeout(_BUDGET_SECONDS):
                await self._joined
        except BaseException as exc:
            await self._end()
            if not isinstance(exc, TimeoutError):
                raise
            raise StoreUnavailable(
                f"could not subscribe to {self._address.name} in time; is it running?"
            ) from None
        self._background.start(self._send_heartbeats(), "kue-bus-heartbeat")
        reporter = NodeStatusReporter(
            self._client,
            self._root,
            self.node,
            member.meter,
            self._inbox,
            self._outboxes,
        )
        self._background.start(
            reporter.run(self._heartbeat, self._lease), "kue-bus-report"
        )

    async def leave(self) -> None:
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self.flush()
                change = NodeChange(self.node, left=True)
                await self._run("node_leave", self.node, msgspec.json.encode(change))
        await self._end()

    async def flush(self) -> None:
        await self._membership.flush()
        await self._outboxes.flush()

    async def look_up(self, address: str) -> Sequence[str]:
        number, seen = await self._read_nodes(address)
        if not seen.keys() <= self._table.nodes:
            # One has just joined; its change is on the way here.
            await self._read_all()
        elif number >= self._table.number:
            # Else newer changes have come, and what they removed must stay removed.
            for node, addresses in seen.items():
                self._table.add(node, addresses)
        return self._table.nodes_at(address)

    def watch(self, call: Callable[[], object]) -> None:
        self._watchers.append(call)

    def roster(self, group: str) -> RedisAssignments:
        return RedisAssignments(self._client, self._root, self.node, group)

    async def _end(self) -> None:
        await self._background.close()
        await self._membership.end()
        await self._outboxes.abandon()
        await self._client.close()

    # -- listening --------------------------------------------------------------

    async def _listen(self) -> None:
        """Follow both channels, and resubscribe after every loss of the connection."""
        while True:
            try:
                await self._subscribe()
                error = StoreError("this node was out of sync with the cluster")
            except StoreError as exc:
                error = exc
            if not self._joined.done() and not isinstance(error, StoreUnavailable):
                self._joined.set_exception(error)
                return
            if self._disconnected_at is None:
                self._disconnected_at = time.monotonic()
                logger.warning("the bus lost its cluster, retrying: %s", error)
            self._is_connected.clear()
            await asyncio.sleep(short_pause())

    async def _subscribe(self) -> None:
        channels = (f"{self._root}:to:{self.node}", f"{self._root}:changes")
        async with self._client.subscription(self._root, *channels) as messages:
            await self._membership.register()
            # It may be a Redis that lost its last changes and counts from there.
            self._table.number = 0
            await self._read_all()
            self._received_at = self._loop.time()
            self._mark_connected()
            while self._is_connected.is_set():
                message = await messages(self._heartbeat)
                if message is not None:
                    self._received_at = self._loop.time()
                    await self._receive(message)
                    # Other tasks must run, however many messages come in.
                    await asyncio.sleep(0)

    def _mark_connected(self) -> None:
        self._is_connected.set()
        if not self._joined.done():
            self._joined.set_result(None)
        if self._disconnected_at is not None:
            seconds = time.monotonic() - self._disconnected_at
            self._disconnected_at = None
            logger.warning("the bus rejoined its cluster after %.1f s", seconds)

    async def _receive(self, message: bytes) -> None:
        try:
            if message[:1].isdigit():
                await self._receive_change(*read_change(message))
            else:
                await self._receive_batch(message)
        except StoreError:
            raise
        except Exception:
            # Later messages must still be received.
            logger.exception("the bus received an unreadable message")

    async def _receive_batch(self, message: bytes) -> None:
        batch = unpack(message)
        if batch.ack is not None:
            self._outboxes.acknowledge(batch.sender, batch.ack)
        for count, frame in enumerate(self._inbox.take(batch, len(message)), 1):
            try:
                self._member.receive(frame)
            except Exception:
                # The other frames of the batch must still be received.
                logger.exception("the bus received an unreadable message")
            if count % _BATCH == 0:
                await asyncio.sleep(0)
        # A node not known here would leave an outbox behind; it will ask.
        if batch.sender in self._table.nodes and (
            batch.wants_ack or self._inbox.is_ack_due(batch.sender)
        ):
            self._outboxes.to(batch.sender).send_ack()

    async def _receive_change(self, number: int, change: NodeChange) -> None:
        if number <= self._table.number:
            return
        if number != self._table.number + 1:
            await self._read_all()
            return
        self._table.apply(number, change)
        self._missing.pop(change.node, None)
        if change.joined or change.left:
            self._notify_watchers()
        if change.left:
            if change.node == self.node:
                await self._membership.register()
            else:
                self._background.start(self._drop_node(change.node), "kue-bus-drop")
        elif change.joined:
            self._outboxes.remind(change.node)

    # -- reading ----------------------------------------------------------------

    async def _read_all(self) -> None:
        """Read all nodes and their addresses again."""
        number, seen = await self._read_nodes("")
        if number < self._table.number:
            # Changes came in the meantime.
            return
        absent = self._table.replace(number, seen)
        # After a restart of Redis the other nodes rejoin, as this one does.
        until = self._loop.time() + self._lease
        self._missing = {node: self._missing.get(node, until) for node in absent}
        self._notify_watchers()

    async def _read_nodes(self, address: str) -> tuple[int, dict[str, list[str]]]:
        number, *rest = await self._run("read_nodes", address)
        seen = {
            node.decode(): [it.decode() for it in addresses]
            for node, addresses in zip(rest[::2], rest[1::2], strict=True)
        }
        return int(number), seen

    # -- heartbeats and lost nodes ----------------------------------------------

    async def _send_heartbeats(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(self._heartbeat)
            with contextlib.suppress(StoreError):
                if self._table.number < number:
                    await self._catch_up()
                reply = await self._run(
                    "node_heartbeat",
                    self.node,
                    round(self._lease * 1000),
                    round(self._heartbeat * _OVERDUE * 1000),
                )
                if reply == b"GONE":
                    await self._membership.register()
                elif reply == b"DEAF":
                    # Redis has no subscription of this node, whatever its state here.
                    self._is_connected.clear()
                else:
                    number = int(reply)
            await self._drop_missing()

    async def _catch_up(self) -> None:
        """Read a change that was published a heartbeat ago and has not arrived yet."""
        if self._loop.time() - self._received_at > self._lease:
            self._is_connected.clear()
        else:
            # Many messages may precede it; to resubscribe would lose all of them.
            await self._read_all()

    async def _drop_missing(self) -> None:
        now = self._loop.time()
        for node in [it for it, until in self._missing.items() if until < now]:
            del self._missing[node]
            self._table.forget(node)
            await self._drop_node(node)

    def _notify_watchers(self) -> None:
        for call in self._watchers:
            call()

    async def _drop_node(self, node: str) -> None:
        """Return to the bus what a dead node never received, and report its loss."""
        logger.info(
            "node %s left the bus; %d messages sent to it may not have been received",
            node,
            self._outboxes.unacknowledged(node),
        )
        requests = self._member.requests_to(node)
        unseen = await self._outboxes.close(node)
        # The node may be back by now, and has to answer what it is asked from then on.
        returned = {frame.reply_address for frame in unseen}
        lost = [it for it in requests if it.reply_address not in returned]
        self._member.node_left(node, lost)
        for frame in unseen:
            self._member.undelivered(frame)

    # -- sending ----------------------------------------------------------------

    def _post(self, node: str, frame: Frame) -> None:
        if node not in self._table.nodes:
            self._member.undelivered(frame)
        elif reason := self._outboxes.put(node, frame):
            self._member.given_up(frame, reason)

    async def _publish(self, node: str, batch: bytes) -> int:
        """Publish to a node; return how many received it, which is one or none."""
        channel = f"{self._root}:to:{node}"
        self._outboxes.bytes += len(batch)
        return int(await self._client.read(self._root, "SPUBLISH", channel, batch))
