"""The consumers of one address, and round-robin delivery among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from kue.bus.consumer import Consumer
    from kue.bus.metrics import AddressCounts


class AddressConsumers:
    """
    The consumers of an address on this node.

    Consumers register and unregister one by one.  Messages see them as a tuple, which
    is rebuilt at the first message after a change: ten thousand consumers cost no
    more each than ten do.
    """

    __slots__ = (
        "_all",
        "_consumers",
        "_next",
        "_reachable",
        "_reachable_count",
        "announced",
        "counts",
    )

    def __init__(self, counts: AddressCounts) -> None:
        #: Counters of the messages to this address.
        self.counts = counts
        self._consumers: dict[Consumer, None] = {}
        self._all: tuple[Consumer, ...] | None = ()
        self._reachable: tuple[Consumer, ...] | None = ()
        #: How many of them other nodes can reach.
        self._reachable_count = 0
        #: Position of the round robin.
        self._next = 0
        #: Done when the cluster knows the address; None when it need not know.
        self.announced: Future[None] | None = None

    @property
    def is_empty(self) -> bool:
        return not self._consumers

    @property
    def is_local(self) -> bool:
        """Whether other nodes can reach none of them."""
        return self._reachable_count == 0

    @property
    def all(self) -> tuple[Consumer, ...]:
        consumers = self._all
        if consumers is None:
            consumers = self._all = tuple(self._consumers)
        return consumers

    @property
    def reachable(self) -> tuple[Consumer, ...]:
        """Those that other nodes can reach."""
        consumers = self._reachable
        if consumers is None:
            consumers = tuple(each for each in self._consumers if not each.is_local)
            self._reachable = consumers
        return consumers

    def add(self, consumer: Consumer) -> None:
        self._consumers[consumer] = None
        self.counts.consumers += 1
        self._reachable_count += not consumer.is_local
        self._all = self._reachable = None

    def __contains__(self, consumer: Consumer) -> bool:
        return consumer in self._consumers

    def remove(self, consumer: Consumer) -> None:
        del self._consumers[consumer]
        self.counts.consumers -= 1
        self._reachable_count -= not consumer.is_local
        self._all = self._reachable = None

    def next_of(self, consumers: Sequence[Consumer]) -> Consumer:
        """Return the next of *consumers*, round robin."""
        position = self._next
        self._next = position + 1
        return consumers[position % len(consumers)]
