"""A cluster of event buses within one process, connected through memory."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from kue.aio.thread_calls import LoopCalls, hand_over
from kue.bus.local_assignments import LocalAssignments, LocalGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kue.bus.cluster import ClusterMember
    from kue.bus.frames import Frame

logger = logging.getLogger(__name__)

#: Most frames that may wait for one node.
MAX_FRAMES = 100_000


class LocalCluster:
    """
    The state that the nodes of one process share.

    For several buses in one process, in one loop or in many, and for tests: messages
    between them are encoded and decoded as they would be between machines.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.members: dict[str, LocalNode] = {}
        self.addresses: dict[str, tuple[str, ...]] = {}
        self.groups: dict[str, LocalGroup] = {}

    def manager(self) -> LocalNode:
        """Return the manager of another bus."""
        return LocalNode(self)


class LocalNode:
    """One node of a `LocalCluster`."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._member: ClusterMember | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._incoming: LoopCalls[Frame] | None = None
        self._node = secrets.token_hex(8)
        self._watchers: list[Callable[[], object]] = []
        #: How many messages to other nodes found no room.
        self.given_up = 0

    @property
    def node(self) -> str:
        return self._node

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(self._cluster.members)

    async def join(self, member: ClusterMember) -> None:
        self._member = member
        self._loop = asyncio.get_running_loop()
        self._incoming = LoopCalls(self._loop, self._receive, limit=MAX_FRAMES)
        with self._cluster.lock:
            self._cluster.members[self._node] = self
            others = list(self._cluster.members.values())
        for address in member.addresses():
            self.announce(address)
        for other in others:
            other._notify_watchers()

    async def leave(self) -> None:
        self.vanish()

    def vanish(self) -> None:
        """Disappear at once, like a node that dies; for tests."""
        with self._cluster.lock:
            self._cluster.members.pop(self._node, None)
            addresses = list(self._cluster.addresses)
            others = list(self._cluster.members.values())
        for address in addresses:
            self.withdraw(address)
        for other in others:
            other._node_left(self._node)

    def registrations(self, address: str) -> Sequence[str]:
        nodes = self._cluster.addresses.get(address, ())
        if self._node in nodes:
            return [node for node in nodes if node != self._node]
        return nodes

    async def look_up(self, address: str) -> Sequence[str]:
        return self.registrations(address)

    def announce(self, address: str) -> Future[None]:
        with self._cluster.lock:
            nodes = self._cluster.addresses.get(address, ())
            if self._node not in nodes:
                self._cluster.addresses[address] = (*nodes, self._node)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def withdraw(self, address: str) -> None:
        with self._cluster.lock:
            nodes = self._cluster.addresses.get(address, ())
            rest = tuple(node for node in nodes if node != self._node)
            if rest:
                self._cluster.addresses[address] = rest
            else:
                self._cluster.addresses.pop(address, None)

    def post(self, node: str, frame: Frame) -> None:
        other = self._cluster.members.get(node)
        if other is None or other._incoming is None:
            if self._loop is not None:
                hand_over(self._loop, self._take_back, frame)
        elif not other._incoming.put(frame) and self._member is not None:
            reason = f"the outbox for node {node} is full"
            if not self.given_up:
                logger.error(
                    "%s; messages are lost, the first to %s", reason, frame.address
                )
            self.given_up += 1
            self._member.given_up(frame, reason)

    async def flush(self) -> None:
        # Posted frames are in the loops of the other nodes already.
        return

    def watch(self, call: Callable[[], object]) -> None:
        self._watchers.append(call)

    def roster(self, group: str) -> LocalAssignments:
        with self._cluster.lock:
            shared = self._cluster.groups.setdefault(group, LocalGroup())
        return LocalAssignments(shared, self._node, lambda: self.nodes)

    def _receive(self, frame: Frame) -> None:
        if self._member is not None:
            self._member.receive(frame)

    def _take_back(self, frame: Frame) -> None:
        if self._member is not None:
            self._member.undelivered(frame)

    def _node_left(self, node: str) -> None:
        if self._member is not None and self._loop is not None:
            hand_over(self._loop, self._member.node_left, node)
            self._notify_watchers()

    def _notify_watchers(self) -> None:
        for call in self._watchers:
            if self._loop is not None:
                hand_over(self._loop, call)
