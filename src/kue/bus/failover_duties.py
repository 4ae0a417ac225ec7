"""
Failover duties (assignments) of the nodes of a group: the contract.

A duty is JSON under an id.  One node holds it.  When that node dies, a survivor of its
group takes it over; all survivors agree on which.  Only its users know what it means.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

#: Most duties of one group.
MAX_DUTIES = 1000
#: Most bytes of one duty.
MAX_DUTY = 64 * 1024
#: Seconds after which a node that failed at a duty may be chosen for it again.
AGAIN_SECONDS = 60.0


class AssignmentResult(StrEnum):
    """The outcome of `Assignments.enter`."""

    OK = "OK"
    #: Another node holds it.
    TAKEN = "TAKEN"
    #: It has ended.
    STRUCK = "STRUCK"
    #: The group has `MAX_DUTIES`.
    FULL = "FULL"


class GroupView(NamedTuple):
    """A group as seen by one of its nodes."""

    #: How many nodes it has.
    nodes: int
    #: Whether a node is gone, but not for long enough to be taken over from.
    is_waiting: bool
    #: The ids of this node's duties.
    duties: frozenset[str]


class Assignments(Protocol):
    """
    One node's view of the duties of its group, in the loop that joined the cluster.

    Raises `StoreError` when the cluster cannot be reached; every call may be repeated.
    """

    async def survey(self, *, quorum: int, grace: float) -> GroupView | None:
        """
        Join the group, and take over the duties assigned to this node.

        That is done only in a group of at least *quorum* nodes, and only from nodes
        that have been gone for *grace* seconds.  None means that this node is not in
        the cluster now; it will join again.
        """

    async def read(self, ids: Collection[str]) -> dict[str, bytes]:
        """Return the records of the duties that exist."""

    async def enter(self, duty_id: str, record: bytes) -> AssignmentResult:
        """Hold a duty that no other node holds."""

    async def hand_back(self, duty_id: str) -> None:
        """Release a duty at which this node failed, for another node to try."""

    async def strike(self, duty_id: str) -> None:
        """End a duty, whichever node holds it."""

    async def resign(self) -> None:
        """Leave the group, and end all duties of this node."""
