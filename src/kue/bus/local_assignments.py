"""Assignments (duties) of groups of nodes that live in one process."""

from __future__ import annotations

import threading
import time
import zlib
from typing import TYPE_CHECKING

from kue.bus.assignments import AGAIN_SECONDS, MAX_DUTIES, AssignmentResult, GroupView

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_MAX_STRUCK = 10_000


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
    """The assignments of one node; *nodes* returns the live nodes."""

    def __init__(
        self, group: LocalGroup, node: str, nodes: Callable[[], frozenset[str]]
    ) -> None:
        self._group = group
        self._node = node
        self._nodes = nodes

    async def survey(self, *, quorum: int, grace: float) -> GroupView | None:
        group, nodes = self._group, self._nodes()
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
                if not self._is_over(holder, now, grace):
                    is_early = True
                elif self._chosen(duty_id, holder, now) == self._node:
                    group.holders[duty_id] = self._node
        return is_early

    def _is_over(self, holder: str, now: float, grace: float) -> bool:
        return not holder or now - self._group.gone.setdefault(holder, now) >= grace

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
