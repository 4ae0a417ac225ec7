"""
The contract between a bus and its cluster.

A `ClusterManager` says which nodes there are and at which addresses they listen, and
carries frames to them.  What a bus asks on every message is answered from memory; the
rest takes its time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from concurrent.futures import Future

    from kue.bus.assignments import Assignments
    from kue.bus.frames import Frame
    from kue.bus.metrics import BusMetrics


class ClusterMember(Protocol):
    """What a manager asks of the bus that joined; always in the loop it joined in."""

    @property
    def meter(self) -> BusMetrics:
        """What passes it, counted."""

    def addresses(self) -> Collection[str]:
        """Return where other nodes may reach this one."""

    def receive(self, frame: Frame) -> None:
        """Take what another node sent."""

    def undelivered(self, frame: Frame) -> None:
        """Take back a frame that its node never saw; the node is gone."""

    def given_up(self, frame: Frame, reason: str) -> None:
        """Take back a frame for which there is no room; from any thread."""

    def node_left(self, node: str) -> None:
        """Hear that a node is gone."""


class ClusterManager(Protocol):
    """
    One node's view of a cluster.

    `nodes` and `registrations` may be asked from any thread, and so may `announce`,
    `withdraw` and `post` be called; the coroutines belong to the loop that joined.
    """

    @property
    def node(self) -> str:
        """The name of this node, without dots."""

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes, this one included."""

    async def join(self, member: ClusterMember) -> None:
        """Become a node, announce the member's addresses, and know all others."""

    async def leave(self) -> None:
        """Stop being a node; whatever was posted is sent first."""

    def registrations(self, address: str) -> Sequence[str]:
        """Return the other nodes that listen at *address*, as far as is known here."""

    async def look_up(self, address: str) -> Sequence[str]:
        """Return the same as the cluster has it, and know it from now on."""

    def announce(self, address: str) -> Future[None]:
        """Tell all nodes that this one listens at *address*; done when it is told."""

    def withdraw(self, address: str) -> None:
        """Tell all nodes that it does no longer."""

    def post(self, node: str, frame: Frame) -> None:
        """
        Send a frame to a node, in the order of the calls.

        One that cannot be sent for want of room is given up, and the log says so.
        """

    async def flush(self) -> None:
        """Wait until all that was posted and announced is out."""

    def watch(self, call: Callable[[], object]) -> None:
        """Have *call* made, in the loop that joined, when nodes came or went."""

    def roster(self, group: str) -> Assignments:
        """Return the duties of *group*, of which this node shall be one."""
