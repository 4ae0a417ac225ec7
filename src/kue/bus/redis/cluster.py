"""
The cluster manager on Redis.

Every node has a channel and beats; all of them follow one channel of numbered changes,
so that each knows by heart who listens where.  A change that was missed, a Redis that
was away or lost what it had: whoever notices reads everything anew and joins again.

All keys share one hash tag and so live in one slot of a Redis Cluster; channels are
sharded ones, which that slot's node alone carries.

==================  ======  ========================================================
key, after the tag  type    holds
==================  ======  ========================================================
``:nodes``          zset    nodes; score = when each last beat, ms
``:at:<node>``      set     addresses at which it listens
``:number``         string  number of the last change
``:changes``        –       channel: number, tab, change as JSON
``:to:<node>``      –       channel: batches of frames for a node
``:facts:<node>``   string  what it tells of itself, JSON; forgotten after a lease
``:seen``           string  there while someone looks at messages
``:samples``        –       channel: some messages for them, JSON
==================  ======  ========================================================
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import msgspec

from kue.aio.thread_calls import LoopCalls, hand_over, running
from kue.bus.frames import unpack
from kue.bus.redis import scripts
from kue.bus.redis.assignments import RedisAssignments
from kue.bus.redis.inbox import NodeInbox
from kue.bus.redis.key_prefix import root_of
from kue.bus.redis.membership import Membership
from kue.bus.redis.node_status import NodeStatusReporter
from kue.bus.redis.node_table import NodeChange, NodeTable, read_news
from kue.bus.redis.outbox import MAX_FRAMES
from kue.bus.redis.outboxes import NodeOutboxes
from kue.model.errors import StoreError, StoreUnavailable
from kue.store.redis.wire.client import RedisClient, short_pause
from kue.store.redis.wire.url import read_url

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Sequence

    from kue.bus.cluster import ClusterMember
    from kue.bus.frames import Frame

logger = logging.getLogger(__name__)

BEAT_SECONDS = 1.0
LEASE_SECONDS = 5.0
#: A beat is overdue after so many intervals.
_OVERDUE = 1.5
#: Frames that are handled before others have their turn in the loop.
_TURN = 64
_BUDGET_SECONDS = 5.0
_LEAVE_SECONDS = 2.0


class RedisCluster:
    """
    A node of the cluster that meets at *url* under *prefix*.

    A node is taken for dead when it has not beaten for *lease* seconds, or when its
    connection is gone and a beat is overdue.  All nodes are to have the same *beat* and
    *lease*.  A node that was taken for dead and is not joins again by itself.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "kue",
        beat: float = BEAT_SECONDS,
        lease: float = LEASE_SECONDS,
    ) -> None:
        if not 0 < beat < lease:
            raise ValueError(f"beat ({beat}) must be shorter than lease ({lease})")
        self._address = read_url(url)
        self._root = root_of(prefix)
        self._beat = beat
        self._lease = lease
        self._node = secrets.token_hex(8)
        self._mirror = NodeTable(self._node)
        self._link = RedisClient(self._address, budget_seconds=_BUDGET_SECONDS)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._member: ClusterMember | None = None
        #: Done when that was so for the first time, or never will be.
        self._joined: asyncio.Future[None] | None = None
        #: Set while Redis has our subscription and our addresses.
        self._is_in = asyncio.Event()
        self._away_since: float | None = None
        self._listening: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._inbox = NodeInbox()
        self._mail = NodeOutboxes(self._node, self._publish, self._inbox.heard)
        #: What other threads post.
        self._crossing: LoopCalls[tuple[str, Frame]] | None = None
        #: When something was last heard, by the clock of the loop.
        self._heard_at = 0.0
        self._announcer = Membership(
            self._node, self._run, self._addresses, self._is_in
        )
        self._watchers: list[Callable[[], object]] = []
        #: Nodes that Redis did not know when it was read, and until when we wait.
        self._missing: dict[str, float] = {}

    @property
    def lost(self) -> int:
        """How many messages are known to have been lost on the way here."""
        return self._inbox.lost

    @property
    def given_up(self) -> int:
        """How many messages to other nodes found no room."""
        return self._mail.given_up

    # -- what a bus asks, from any thread ---------------------------------------

    @property
    def node(self) -> str:
        return self._node

    @property
    def nodes(self) -> frozenset[str]:
        return self._mirror.nodes

    def registrations(self, address: str) -> Sequence[str]:
        return self._mirror.nodes_at(address)

    def announce(self, address: str) -> Future[None]:
        told: Future[None] = Future()
        self._here(self._announcer.tell, address, True, told)
        return told

    def withdraw(self, address: str) -> None:
        self._here(self._announcer.tell, address, False, None)

    def post(self, node: str, frame: Frame) -> None:
        if running() is self._loop:
            self._post(node, frame)
            return
        assert self._crossing is not None, "the cluster was not joined"
        if not self._crossing.put((node, frame)):
            assert self._member is not None
            self._member.given_up(frame, self._mail.give_up(node, frame))

    # -- coming and going -------------------------------------------------------

    async def join(self, member: ClusterMember) -> None:
        self._loop = asyncio.get_running_loop()
        self._crossing = LoopCalls(
            self._loop, lambda posted: self._post(*posted), limit=MAX_FRAMES
        )
        self._member = member
        self._joined = self._loop.create_future()
        self._listening = asyncio.create_task(self._listen(), name="kue-bus-listen")
        try:
            async with asyncio.timeout(_BUDGET_SECONDS):
                await self._joined
        except TimeoutError:
            await self._end()
            raise StoreUnavailable(
                f"{self._address.name} could not be listened to in time; is it running?"
            ) from None
        except BaseException:
            await self._end()
            raise
        self._start(self._beat_on(), "beat")
        reporter = NodeStatusReporter(
            self._link, self._root, self._node, member.meter, self._inbox, self._mail
        )
        self._start(reporter.run(self._beat, self._lease), "report")

    async def leave(self) -> None:
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self.flush()
                news = NodeChange(self._node, left=True)
                await self._run("leave", self._node, msgspec.json.encode(news))
        await self._end()

    async def flush(self) -> None:
        await self._announcer.flush()
        await self._mail.flush()

    async def look_up(self, address: str) -> Sequence[str]:
        number, seen = await self._look(address)
        if not seen.keys() <= self._mirror.nodes:
            # One that joined just now; its change is on the way here.
            await self._read_all()
        elif number >= self._mirror.number:
            # Else changes came in meanwhile, and what they took away must stay away.
            for node, addresses in seen.items():
                self._mirror.add(node, addresses)
        return self._mirror.nodes_at(address)

    def watch(self, call: Callable[[], object]) -> None:
        self._watchers.append(call)

    def roster(self, group: str) -> RedisAssignments:
        return RedisAssignments(self._link, self._root, self._node, group)

    async def _end(self) -> None:
        tasks = [*self._tasks]
        if self._listening is not None:
            tasks.append(self._listening)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._announcer.end()
        await self._mail.abandon()
        await self._link.close()

    # -- listening --------------------------------------------------------------

    async def _listen(self) -> None:
        """Follow both channels, through every loss of the connection."""
        while True:
            try:
                await self._subscribe()
                error = StoreError("this node was out of step with it")
            except self._link.errors as exc:
                error = self._link.translate(exc)
            except StoreError as exc:
                error = exc
            assert self._joined is not None
            if not self._joined.done() and not isinstance(error, StoreUnavailable):
                self._joined.set_exception(error)
                return
            if self._away_since is None:
                self._away_since = time.monotonic()
                logger.warning("the bus lost its cluster, trying again: %s", error)
            self._is_in.clear()
            await asyncio.sleep(short_pause())

    async def _subscribe(self) -> None:
        loop = asyncio.get_running_loop()
        channels = (f"{self._root}:to:{self._node}", f"{self._root}:changes")
        async with self._link.subscription(self._root, *channels) as messages:
            await self._announcer.write_down()
            # It may be a Redis that lost its last changes and counts from there.
            self._mirror.number = 0
            await self._read_all()
            self._heard_at = loop.time()
            self._come_in()
            while self._is_in.is_set():
                message = await messages(self._beat)
                if message is not None:
                    self._heard_at = loop.time()
                    await self._hear(message)
                    # Others must have their turn, however much there is to hear.
                    await asyncio.sleep(0)

    def _come_in(self) -> None:
        assert self._joined is not None
        self._is_in.set()
        if not self._joined.done():
            self._joined.set_result(None)
        if self._away_since is not None:
            away = time.monotonic() - self._away_since
            self._away_since = None
            logger.warning("the bus has its cluster again after %.1f s", away)

    async def _hear(self, message: bytes) -> None:
        try:
            if message[:1].isdigit():
                await self._hear_news(*read_news(message))
            else:
                await self._hear_batch(message)
        except StoreError:
            raise
        except Exception:
            # Whatever it was, the next must be heard.
            logger.exception("the bus heard what it cannot read")

    async def _hear_batch(self, message: bytes) -> None:
        assert self._member is not None
        batch = unpack(message)
        if batch.heard is not None:
            self._mail.acknowledge(batch.sender, batch.heard)
        for count, frame in enumerate(self._inbox.take(batch, len(message)), 1):
            try:
                self._member.receive(frame)
            except Exception:
                # The others of its batch have nothing to do with it.
                logger.exception("the bus heard what it cannot read")
            if count % _TURN == 0:
                await asyncio.sleep(0)
        # One that is not known here would leave an outbox behind; it will ask.
        if batch.sender in self._mirror.nodes and (
            batch.asks or self._inbox.owes(batch.sender)
        ):
            self._mail.tell(batch.sender)

    async def _hear_news(self, number: int, news: NodeChange) -> None:
        if number <= self._mirror.number:
            return
        if not self._mirror.follows(number):
            await self._read_all()
            return
        self._mirror.apply(number, news)
        self._missing.pop(news.node, None)
        if news.joined or news.left:
            self._tell_watchers()
        if news.left:
            if news.node == self._node:
                await self._announcer.write_down()
            else:
                self._start(self._lose(news.node), "lose")
        elif news.joined:
            self._mail.remind(news.node)

    # -- reading ----------------------------------------------------------------

    async def _read_all(self) -> None:
        """Know the cluster anew."""
        assert self._loop is not None
        number, seen = await self._look("")
        if number < self._mirror.number:
            # Changes came in meanwhile.
            return
        absent = self._mirror.replace(number, seen)
        # After a restart of Redis the others are on their way back, as we are.
        until = self._loop.time() + self._lease
        self._missing = {node: self._missing.get(node, until) for node in absent}
        self._tell_watchers()

    async def _look(self, address: str) -> tuple[int, dict[str, list[str]]]:
        number, *rest = await self._run("look", address)
        seen = {
            node.decode(): [it.decode() for it in addresses]
            for node, addresses in zip(rest[::2], rest[1::2], strict=True)
        }
        return int(number), seen

    def _addresses(self) -> Collection[str]:
        assert self._member is not None
        return self._member.addresses()

    async def _run(self, script: str, *args: Any) -> Any:
        return await scripts.run(self._link, self._root, script, *args)

    # -- living and dying -------------------------------------------------------

    async def _beat_on(self) -> None:
        number = 0
        while True:
            await asyncio.sleep(self._beat)
            with contextlib.suppress(StoreError):
                if self._mirror.number < number:
                    await self._catch_up()
                reply = await self._run(
                    "beat",
                    self._node,
                    round(self._lease * 1000),
                    round(self._beat * _OVERDUE * 1000),
                )
                if reply == b"GONE":
                    await self._announcer.write_down()
                elif reply == b"DEAF":
                    # Redis has no subscription of ours, whatever we believe.
                    self._is_in.clear()
                else:
                    number = int(reply)
            await self._give_up_missing()

    async def _catch_up(self) -> None:
        """Know of a change that was told a beat ago and is not here yet."""
        assert self._loop is not None
        if self._loop.time() - self._heard_at > self._lease:
            self._is_in.clear()
        else:
            # There may be a lot to hear before it; to listen anew would lose all that.
            await self._read_all()

    async def _give_up_missing(self) -> None:
        assert self._loop is not None
        now = self._loop.time()
        for node in [it for it, until in self._missing.items() if until < now]:
            del self._missing[node]
            self._mirror.forget(node)
            await self._lose(node)

    def _tell_watchers(self) -> None:
        for call in self._watchers:
            call()

    async def _lose(self, node: str) -> None:
        """Hand back what a dead node never saw, and tell that it is gone."""
        assert self._member is not None
        logger.info(
            "node %s left the bus; %d messages were sent to it that it may not have "
            "heard",
            node,
            self._mail.unsure(node),
        )
        for frame in await self._mail.close(node):
            self._member.undelivered(frame)
        self._member.node_left(node)

    # -- sending ----------------------------------------------------------------

    def _post(self, node: str, frame: Frame) -> None:
        assert self._member is not None
        if node not in self._mirror.nodes:
            self._member.undelivered(frame)
            return
        reason = self._mail.put(node, frame)
        if reason:
            self._member.given_up(frame, reason)

    async def _publish(self, node: str, batch: bytes) -> int:
        """Publish to a node; return how many heard it, which is one or none."""
        channel = f"{self._root}:to:{node}"
        self._mail.bytes += len(batch)
        return int(await self._link.read(self._root, "SPUBLISH", channel, batch))

    # -- small things -----------------------------------------------------------

    def _here(self, call: Any, *args: Any) -> None:
        """Make a call in the loop that joined."""
        assert self._loop is not None, "the cluster was not joined"
        if running() is self._loop:
            call(*args)
        else:
            hand_over(self._loop, call, *args)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=f"kue-bus-{name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
