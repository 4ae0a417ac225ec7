"""Statistics of a bus and its nodes: values that are written, read and summed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from kue.model.histogram import added

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: How a message was sent.
MessageKind: TypeAlias = Literal["send", "publish", "request", "reply"]


class AddressStats(msgspec.Struct, frozen=True, omit_defaults=True):
    """Messages of one address on one node."""

    address: str
    consumers: int = 0
    #: Messages sent from here since the node started.
    sent: int = 0
    #: Messages that came to consumers here; a published one counts once.
    received: int = 0
    #: The same per second, recently.
    send_rate: float = 0.0
    receive_rate: float = 0.0
    #: How long replies to requests from here took, in the last minutes: buckets of
    #: `kue.model.histogram`.
    waits: dict[int, int] = {}
    #: Requests from here that failed, by the name of a `FailureKind`.
    failures: dict[str, int] = {}


class BusStats(msgspec.Struct, frozen=True, omit_defaults=True):
    """Statistics of one bus."""

    #: All addresses together.
    total: AddressStats
    #: The busiest addresses.
    addresses: list[AddressStats] = []
    #: How many others there are; those that are not counted separately are one.
    rest: int = 0
    #: Pending requests.
    waiting: int = 0


class NodeStats(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Statistics of one node of a cluster."""

    host: str = ""
    pid: int = 0
    version: str = ""
    #: When it joined, Unix ms.
    since: int = 0
    #: Bytes of messages to and from other nodes.
    bytes_out: int = 0
    bytes_in: int = 0
    #: Messages that are known to have been lost on the way to it.
    lost: int = 0
    #: Messages from it for which there was no room.
    given_up: int = 0
    bus: BusStats


class MessageSample(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A message as shown to someone who inspects the bus."""

    #: When it was sent, Unix ms.
    at: int
    #: The node that sent it.
    node: str = ""
    address: str
    kind: MessageKind
    #: Bytes of the encoded body.
    size: int = 0
    #: Names of headers, without their values.
    headers: list[str] = []
    codec: str = ""
    #: JSON; None for a body that is not JSON.
    body: Any = None
    #: Whether parts of the body were left out.
    is_cut: bool = False


class AddressTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one address on all nodes."""

    address: str
    #: The nodes that listen there.
    nodes: list[str]
    consumers: int
    sent: int
    received: int
    send_rate: float
    receive_rate: float
    waits: dict[int, int]
    failures: dict[str, int]


def sums(stats: Iterable[tuple[str, BusStats]]) -> list[AddressTotals]:
    """Add up the statistics of nodes by address; the busiest come first."""
    by_address: dict[str, list[tuple[str, AddressStats]]] = {}
    for node, bus in stats:
        for facts in bus.addresses:
            by_address.setdefault(facts.address, []).append((node, facts))
    found = [_totals(address, parts) for address, parts in by_address.items()]
    return sorted(found, key=lambda one: (-one.send_rate, -one.sent, one.address))


def counted(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add up numbers by name."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def summed(address: str, parts: Sequence[AddressStats]) -> AddressStats:
    """Add up statistics, under *address*; rates are rounded."""
    return AddressStats(
        address,
        consumers=sum(one.consumers for one in parts),
        sent=sum(one.sent for one in parts),
        received=sum(one.received for one in parts),
        send_rate=round(sum(one.send_rate for one in parts), 2),
        receive_rate=round(sum(one.receive_rate for one in parts), 2),
        waits=added(one.waits for one in parts),
        failures=counted(one.failures for one in parts),
    )


def _totals(address: str, parts: list[tuple[str, AddressStats]]) -> AddressTotals:
    nodes = sorted(node for node, one in parts if one.consumers)
    total = summed(address, [one for _, one in parts])
    return AddressTotals(nodes=nodes, **msgspec.structs.asdict(total))
