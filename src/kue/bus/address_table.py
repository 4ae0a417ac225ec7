"""The consumers of one address."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from kue.bus.consumer import Consumer
    from kue.bus.metrics import AddressCounts


class AddressConsumers:
    """
    Who listens at an address of this node.

    Consumers come and go one by one and messages see them as a tuple, which is made
    anew with the first message after a change: ten thousand consumers cost no more
    each than ten do.
    """

    __slots__ = (
        "_all",
        "_consumers",
        "_far",
        "_reachable",
        "_turn",
        "announced",
        "tally",
    )

    def __init__(self, tally: AddressCounts) -> None:
        #: What passes here, counted.
        self.tally = tally
        self._consumers: dict[Consumer, None] = {}
        self._all: tuple[Consumer, ...] | None = ()
        self._reachable: tuple[Consumer, ...] | None = ()
        #: How many of them other nodes may reach.
        self._far = 0
        self._turn = 0
        #: Done when the cluster knows the address; None when it is not to know.
        self.announced: Future[None] | None = None

    @property
    def is_empty(self) -> bool:
        return not self._consumers

    @property
    def is_local(self) -> bool:
        """Whether no other node may reach anyone here."""
        return self._far == 0

    @property
    def all(self) -> tuple[Consumer, ...]:
        consumers = self._all
        if consumers is None:
            consumers = self._all = tuple(self._consumers)
        return consumers

    @property
    def reachable(self) -> tuple[Consumer, ...]:
        """Those that other nodes may reach."""
        consumers = self._reachable
        if consumers is None:
            consumers = tuple(each for each in self._consumers if not each.is_local)
            self._reachable = consumers
        return consumers

    def add(self, consumer: Consumer) -> None:
        self._consumers[consumer] = None
        self.tally.consumers += 1
        self._far += not consumer.is_local
        self._all = self._reachable = None

    def __contains__(self, consumer: Consumer) -> bool:
        return consumer in self._consumers

    def remove(self, consumer: Consumer) -> None:
        del self._consumers[consumer]
        self.tally.consumers -= 1
        self._far -= not consumer.is_local
        self._all = self._reachable = None

    def next_of(self, consumers: Sequence[Consumer]) -> Consumer:
        """Return the one whose turn it is."""
        turn = self._turn
        self._turn = turn + 1
        return consumers[turn % len(consumers)]
