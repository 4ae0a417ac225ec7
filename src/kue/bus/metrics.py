"""
What passes a bus, counted by address.

A message costs a look into a dictionary and an addition.  So many addresses are counted
apart; what goes to the others is counted together, and addresses that nobody uses any
more make room.
"""

from __future__ import annotations

import heapq
import math
import time
from typing import TYPE_CHECKING

from kue.bus.requests import PREFIX
from kue.bus.stats import AddressStats, BusStats, counted
from kue.model.histogram import added, bucket

if TYPE_CHECKING:
    from collections.abc import Callable

    from kue.bus.errors import FailureKind
    from kue.bus.interceptors import InterceptorChain
    from kue.bus.requests import PendingRequests

#: Addresses that are counted apart.
MAX_ADDRESSES = 2_000
#: Addresses that are told one by one.
MAX_TOLD = 500
#: Seconds that a rate looks back, with less and less weight.
_SPAN = 5.0
#: Seconds after which replies are counted anew; those of the turn before still count.
_TURN = 60.0


class AddressCounts:
    """What passed one address."""

    __slots__ = (
        "_seen",
        "consumers",
        "failures",
        "older",
        "receive_rate",
        "received",
        "send_rate",
        "sent",
        "waits",
    )

    def __init__(self) -> None:
        self.consumers = 0
        self.sent = 0
        self.received = 0
        self.send_rate = 0.0
        self.receive_rate = 0.0
        #: How long replies took, in this turn and in the one before.
        self.waits: dict[int, int] = {}
        self.older: dict[int, int] = {}
        self.failures: dict[FailureKind, int] = {}
        #: Messages sent and received as of the last look.
        self._seen = (0, 0)

    def answered(self, seconds: float) -> None:
        """Note how long a reply took."""
        bound = bucket(seconds * 1000)
        self.waits[bound] = self.waits.get(bound, 0) + 1

    def failed(self, kind: FailureKind) -> None:
        """Note that a request failed."""
        self.failures[kind] = self.failures.get(kind, 0) + 1

    @property
    def is_idle(self) -> bool:
        """Whether nobody listens, and nothing came since the last look."""
        return not self.consumers and self._seen == (self.sent, self.received)

    def look(self, seconds: float) -> None:
        """Bring the rates up to date, so many seconds after the last look."""
        sent, received = self._seen
        self._seen = (self.sent, self.received)
        weight = 1 - math.exp(-seconds / _SPAN)
        self.send_rate += weight * ((self.sent - sent) / seconds - self.send_rate)
        self.receive_rate += weight * (
            (self.received - received) / seconds - self.receive_rate
        )

    def turn(self) -> None:
        """Let replies of the turn before be forgotten."""
        self.older, self.waits = self.waits, {}

    def take_over(self, other: AddressCounts) -> None:
        """Count what another has counted as well."""
        self.sent += other.sent
        self.received += other.received
        for kind, number in other.failures.items():
            self.failures[kind] = self.failures.get(kind, 0) + number
        sent, received = self._seen
        self._seen = (sent + other.sent, received + other.received)

    def facts(self, address: str) -> AddressStats:
        return AddressStats(
            address,
            self.consumers,
            self.sent,
            self.received,
            round(self.send_rate, 2),
            round(self.receive_rate, 2),
            added((self.waits, self.older)),
            _named(self.failures),
        )


class _Tallies(dict[str, AddressCounts]):
    """Tallies by address; what is missing is made, or counted with the others."""

    def __init__(self, others: AddressCounts) -> None:
        super().__init__()
        self._others = others

    def __missing__(self, address: str) -> AddressCounts:
        # A reply has an address of its own.
        if len(self) >= MAX_ADDRESSES or address.startswith(PREFIX):
            return self._others
        return self.setdefault(address, AddressCounts())


class BusMetrics:
    """The counts of one bus, and a way to look at its messages."""

    def __init__(
        self,
        outbound: InterceptorChain,
        requests: PendingRequests,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        #: What messages pass when they are sent: who wants to see them is added here.
        self.outbound = outbound
        self._requests = requests
        self._clock = clock
        self._others = AddressCounts()
        self.tallies: dict[str, AddressCounts] = _Tallies(self._others)
        self._looked_at = self._turned_at = clock()

    def facts(self) -> BusStats:
        """Return what there is to tell; rates are those between such calls."""
        self._look()
        tallies = list(self.tallies.items())
        busiest = heapq.nlargest(MAX_TOLD, tallies, key=_busy)
        told = [tally.facts(address) for address, tally in busiest]
        rest = len(tallies) - len(told)
        return BusStats(
            _total([*(tally for _, tally in tallies), self._others]),
            told,
            rest + bool(self._others.sent or self._others.received),
            len(self._requests),
        )

    def _look(self) -> None:
        now = self._clock()
        seconds = now - self._looked_at
        if seconds <= 0:
            return
        self._looked_at = now
        is_turn = now - self._turned_at >= _TURN
        if is_turn:
            self._turned_at = now
        is_crowded = len(self.tallies) > MAX_ADDRESSES // 2
        for address, tally in list(self.tallies.items()):
            if is_crowded and tally.is_idle:
                del self.tallies[address]
                self._others.take_over(tally)
                continue
            _bring(tally, seconds, is_turn=is_turn)
        _bring(self._others, seconds, is_turn=is_turn)


def _bring(tally: AddressCounts, seconds: float, *, is_turn: bool) -> None:
    tally.look(seconds)
    if is_turn:
        tally.turn()


def _busy(item: tuple[str, AddressCounts]) -> tuple[float, int, int]:
    _, tally = item
    rate = tally.send_rate + tally.receive_rate
    return rate, tally.consumers, tally.sent + tally.received


def _total(tallies: list[AddressCounts]) -> AddressStats:
    waits = [counts for tally in tallies for counts in (tally.waits, tally.older)]
    failures = [tally.failures for tally in tallies if tally.failures]
    return AddressStats(
        "",
        sum(tally.consumers for tally in tallies),
        sum(tally.sent for tally in tallies),
        sum(tally.received for tally in tallies),
        round(sum(tally.send_rate for tally in tallies), 2),
        round(sum(tally.receive_rate for tally in tallies), 2),
        added(counts for counts in waits if counts),
        counted(_named(one) for one in failures),
    )


def _named(failures: dict[FailureKind, int]) -> dict[str, int]:
    return {kind.name: number for kind, number in failures.items()}
