"""The consumers of one address, and round-robin delivery among them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from kue.bus.consumer import Consumer
    from kue.bus.metrics import AddressCounts


@dataclass(slots=True, eq=False)
class AddressConsumers:
    """
    The consumers of an address on this node.

    Consumers register and unregister one by one.  Messages see them as a tuple, which
    is rebuilt at the first message after a change: ten thousand consumers cost no
    more each than ten do.
    """

    #: Counters of the messages to this address.
    counts: AddressCounts
    #: Done when the cluster knows the address; None when it need not know.
    announced: Future[None] | None = None
    _consumers: dict[Consumer, None] = field(default_factory=dict)
    _all: tuple[Consumer, ...] | None = ()
    _reachable: tuple[Consumer, ...] | None = ()
    #: How many of them other nodes can reach.
    _reachable_count: int = 0
    #: Positions of the round robin.
    _turns: Iterator[int] = field(default_factory=itertools.count)

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
        return consumers[next(self._turns) % len(consumers)]
