"""
The contract between an event bus and its cluster.

A `ClusterManager` knows the nodes and the addresses at which they listen, and carries
frames to them.  What a bus needs for every message is read from memory; the other
calls may do I/O.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from concurrent.futures import Future

    from kue.bus.failover_duties import Assignments
    from kue.bus.frames import Frame
    from kue.bus.metrics import BusMetrics
    from kue.bus.requests import PendingRequest

#: Why there is no cluster, for users of SQLite.
NEEDS_REDIS = (
    "the event bus of several processes meets in Redis; with SQLite each process has "
    "its own bus, which other processes cannot inspect"
)
_SCHEMES = ("redis", "rediss", "unix")


def can_cluster(url: str) -> bool:
    """Return whether processes whose queue is at *url* share a bus."""
    return urlsplit(url).scheme.partition("+")[0] in _SCHEMES


class ClusterMember(Protocol):
    """The bus, as a manager calls it; always in the loop in which it joined."""

    @property
    def meter(self) -> BusMetrics:
        """Counters of its messages."""

    def addresses(self) -> Collection[str]:
        """Return the addresses at which other nodes can reach this one."""

    def receive(self, frame: Frame) -> None:
        """Handle a frame from another node."""

    def undelivered(self, frame: Frame) -> None:
        """Take back a frame that its node, which is gone, never received."""

    def given_up(self, frame: Frame, reason: str) -> None:
        """Take back a frame for which there is no room; from any thread."""

    def requests_to(self, node: str) -> Sequence[PendingRequest]:
        """Return the requests that wait for a reply of a node."""

    def node_left(self, node: str, requests: Sequence[PendingRequest]) -> None:
        """Fail the requests that a node, which is gone, may have received."""


class ClusterManager(Protocol):
    """
    One node's view of a cluster.

    `nodes`, `registrations`, `announce`, `withdraw` and `post` may be used from any
    thread; the coroutines belong to the loop that joined.
    """

    @property
    def node(self) -> str:
        """The name of this node, without dots."""

    @property
    def nodes(self) -> frozenset[str]:
        """All nodes, this one included."""

    async def join(self, member: ClusterMember) -> None:
        """Become a node, announce the member's addresses, and read all others."""

    async def leave(self) -> None:
        """Stop being a node, after sending what was posted."""

    def registrations(self, address: str) -> Sequence[str]:
        """Return the other nodes that listen at *address*, as far as is known here."""

    async def look_up(self, address: str) -> Sequence[str]:
        """Return them as the cluster has them, and remember them."""

    def announce(self, address: str) -> Future[None]:
        """Publish that this node listens at *address*; done once it is published."""

    def withdraw(self, address: str) -> None:
        """Publish that this node no longer listens at *address*."""

    def post(self, node: str, frame: Frame) -> None:
        """
        Send a frame to a node, in the order of the calls.

        One for which there is no room is dropped, and that is logged.
        """

    async def flush(self) -> None:
        """Wait until everything posted and announced is sent."""

    def watch(self, call: Callable[[], object]) -> None:
        """Call *call*, in the loop that joined, when nodes joined or left."""

    def roster(self, group: str) -> Assignments:
        """Return the assignments of this node in *group*."""
