"""
A cluster of event buses within one process, connected through memory.

It also keeps the assignments (duties) of groups of its nodes.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
import zlib
from concurrent.futures import Future
from typing import TYPE_CHECKING

from kue.aio.loop_calls import LoopCalls, hand_over
from kue.bus.failover_duties import (
    AGAIN_SECONDS,
    MAX_DUTIES,
    AssignmentResult,
    GroupView,
)
from kue.bus.node_table import NodeTable

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from kue.bus.cluster import ClusterMember
    from kue.bus.frames import Frame

_MAX_STRUCK = 10_000
logger = logging.getLogger(__name__)
#: Most frames that may wait for one node.
MAX_FRAMES = 100_000


class LocalGroup:
    """The state that the nodes of one group share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.nodes: set[str] = set()
        #: The node that holds a duty; empty where none does.
        self.holders: dict[str, str] = {}
        self.records: dict[str, bytes] = {}
        #: When a node failed at a duty, by the monotonic clock.
        self.tried: dict[tuple[str, str], float] = {}
        #: When a node was first found to be gone.
        self.gone: dict[str, float] = {}
        #: Duties that have ended, the last `_MAX_STRUCK`; a dict keeps the order.
        self.struck: dict[str, None] = {}

    def strike(self, duty_id: str) -> None:
        self.holders.pop(duty_id, None)
        self.records.pop(duty_id, None)
        self.tried = {key: at for key, at in self.tried.items() if key[0] != duty_id}
        self.struck[duty_id] = None
        if len(self.struck) > _MAX_STRUCK:
            del self.struck[next(iter(self.struck))]


class LocalAssignments:
    """The assignments of one node of *cluster*."""

    def __init__(self, group: LocalGroup, node: str, cluster: LocalCluster) -> None:
        self._group = group
        self._node = node
        self._cluster = cluster

    async def survey(self, *, quorum: int, grace: float) -> GroupView | None:
        group, nodes = self._group, set(self._cluster.members)
        if self._node not in nodes:
            return None
        with group.lock:
            group.nodes = (group.nodes | {self._node}) & nodes
            is_waiting = len(group.nodes) >= quorum and self._take_over(grace)
            held = set(group.holders.values()) - group.nodes
            group.gone = {it: at for it, at in group.gone.items() if it in held}
            mine = {it for it, node in group.holders.items() if node == self._node}
            return GroupView(len(group.nodes), is_waiting, frozenset(mine))

    def _take_over(self, grace: float) -> bool:
        """Take what falls to this node; return whether it is too early for some."""
        group, now = self._group, time.monotonic()
        is_early = False
        for duty_id, holder in group.holders.items():
            if holder not in group.nodes:
                if holder and now - group.gone.setdefault(holder, now) < grace:
                    is_early = True
                elif self._chosen(duty_id, holder, now) == self._node:
                    group.holders[duty_id] = self._node
        return is_early

    def _chosen(self, duty_id: str, holder: str, now: float) -> str | None:
        tried = self._group.tried
        fit = [
            node
            for node in sorted(self._group.nodes)
            if tried.get((duty_id, node), float("-inf")) <= now - AGAIN_SECONDS
        ]
        number = zlib.crc32((holder or duty_id).encode())
        return fit[number % len(fit)] if fit else None

    async def read(self, ids: Collection[str]) -> dict[str, bytes]:
        records = self._group.records
        return {it: records[it] for it in ids if it in records}

    async def enter(self, duty_id: str, record: bytes) -> AssignmentResult:
        group = self._group
        with group.lock:
            if duty_id in group.struck:
                return AssignmentResult.STRUCK
            if group.holders.get(duty_id, self._node) != self._node:
                return AssignmentResult.TAKEN
            if duty_id not in group.holders and len(group.holders) >= MAX_DUTIES:
                return AssignmentResult.FULL
            group.nodes.add(self._node)
            group.records[duty_id] = record
            group.holders[duty_id] = self._node
            return AssignmentResult.OK

    async def hand_back(self, duty_id: str) -> None:
        group = self._group
        with group.lock:
            if group.holders.get(duty_id) == self._node:
                group.holders[duty_id] = ""
                group.tried[duty_id, self._node] = time.monotonic()

    async def strike(self, duty_id: str) -> None:
        with self._group.lock:
            self._group.strike(duty_id)

    async def resign(self) -> None:
        group = self._group
        with group.lock:
            group.nodes.discard(self._node)
            mine = [it for it, node in group.holders.items() if node == self._node]
            for duty_id in mine:
                group.strike(duty_id)


class LocalCluster:
    """
    The state that the nodes of one process share.

    For several buses in one process, in one loop or in many, and for tests: messages
    between them are encoded and decoded as they would be between machines.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.members: dict[str, LocalNode] = {}
        self.table = NodeTable()
        self.groups: dict[str, LocalGroup] = {}

    def manager(self) -> LocalNode:
        """Return the manager of another bus."""
        return LocalNode(self)


class LocalNode:
    """One node of a `LocalCluster`."""

    # Set by `join`.
    _member: ClusterMember
    _loop: asyncio.AbstractEventLoop
    _incoming: LoopCalls[Frame]

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.node = secrets.token_hex(8)
        self._watchers: list[Callable[[], object]] = []
        #: How many messages to other nodes found no room.
        self.given_up = 0

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(self._cluster.members)

    async def join(self, member: ClusterMember) -> None:
        self._member = member
        self._loop = asyncio.get_running_loop()
        self._incoming = LoopCalls(self._loop, member.receive, limit=MAX_FRAMES)
        # Read first: a bus that announces an address holds its own lock.
        addresses = member.addresses()
        with self._cluster.lock:
            self._cluster.members[self.node] = self
            self._cluster.table.add(self.node, addresses)
            others = list(self._cluster.members.values())
        for other in others:
            other._notify_watchers()

    async def leave(self) -> None:
        self.vanish()

    def vanish(self) -> None:
        """Disappear at once, like a node that dies; for tests."""
        with self._cluster.lock:
            self._cluster.members.pop(self.node, None)
            self._cluster.table.forget(self.node)
            others = list(self._cluster.members.values())
        for other in others:
            other._node_left(self.node)

    def registrations(self, address: str) -> Sequence[str]:
        nodes = self._cluster.table.nodes_at(address)
        return [node for node in nodes if node != self.node]

    async def look_up(self, address: str) -> Sequence[str]:
        return self.registrations(address)

    def announce(self, address: str) -> Future[None]:
        with self._cluster.lock:
            self._cluster.table.add(self.node, [address])
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def withdraw(self, address: str) -> None:
        with self._cluster.lock:
            self._cluster.table.remove(self.node, address)

    def post(self, node: str, frame: Frame) -> None:
        other = self._cluster.members.get(node)
        if other is None:
            hand_over(self._loop, self._member.undelivered, frame)
        elif not other._incoming.put(frame):
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
        return LocalAssignments(shared, self.node, self._cluster)

    def _node_left(self, node: str) -> None:
        hand_over(self._loop, self._fail_requests, node)
        self._notify_watchers()

    def _fail_requests(self, node: str) -> None:
        self._member.node_left(node, self._member.requests_to(node))

    def _notify_watchers(self) -> None:
        for call in self._watchers:
            hand_over(self._loop, call)
