"""
The contract on duties: what the nodes of a group have to do, and who does it.

A duty is JSON under an id.  One node has it; when that node dies, a survivor of its
group does, and each survivor knows alike which.  What a duty is, only its users know.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection

#: Duties of one group.
MAX_DUTIES = 1000
#: Bytes of one of them.
MAX_DUTY = 64 * 1024
#: Seconds after which a node that failed at a duty may be chosen for it again.
AGAIN_SECONDS = 60.0


class AssignmentResult(StrEnum):
    """How an attempt to have a duty ended."""

    OK = "OK"
    #: Another node has it.
    TAKEN = "TAKEN"
    #: It is over.
    STRUCK = "STRUCK"
    #: The group has `MAX_DUTIES`.
    FULL = "FULL"


class GroupView(NamedTuple):
    """A group as one of its nodes found it."""

    #: How many nodes it has.
    nodes: int
    #: Whether a node is gone that must be so for longer to be taken over from.
    is_waiting: bool
    #: The ids of this node's.
    duties: frozenset[str]


class Assignments(Protocol):
    """
    One node's view of the duties of its group, in the loop that joined the cluster.

    Raises `StoreError` when it cannot be reached; every call may be repeated.
    """

    async def survey(self, *, quorum: int, grace: float) -> GroupView | None:
        """
        Be a node of the group, and take over what falls to this one.

        That is done only in a group of at least *quorum* nodes, and only from nodes
        that have been gone for *grace* seconds.  None means that this node is none of
        the cluster now; it will be again.
        """

    async def read(self, ids: Collection[str]) -> dict[str, bytes]:
        """Return what duties are, as far as they are known."""

    async def enter(self, duty_id: str, record: bytes) -> AssignmentResult:
        """Have a duty that nobody else has."""

    async def hand_back(self, duty_id: str) -> None:
        """Have failed at a duty: another node is to try."""

    async def strike(self, duty_id: str) -> None:
        """End a duty, whoever has it."""

    async def resign(self) -> None:
        """Leave the group, and end all duties of this node."""
