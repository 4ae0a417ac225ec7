"""
Metrics of an event bus: counters of messages by address.

A message costs a dictionary lookup and an addition.  A limited number of addresses is
counted separately, all others together; addresses no longer in use join the others to
make room.
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

#: Addresses that are counted separately.
MAX_ADDRESSES = 2_000
#: Addresses that are reported one by one.
MAX_REPORTED = 500
#: Seconds that a rate looks back, with decreasing weight.
_RATE_SECONDS = 5.0
#: Seconds after which reply times are counted from 0; the previous window still counts.
_WINDOW_SECONDS = 60.0


class AddressCounts:
    """Counters of one address."""

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
        #: How long replies took, in this window and in the previous one.
        self.waits: dict[int, int] = {}
        self.older: dict[int, int] = {}
        self.failures: dict[FailureKind, int] = {}
        #: Messages sent and received as of the last update.
        self._seen = (0, 0)

    def answered(self, seconds: float) -> None:
        """Record how long a reply took."""
        bound = bucket(seconds * 1000)
        self.waits[bound] = self.waits.get(bound, 0) + 1

    def failed(self, kind: FailureKind) -> None:
        """Record that a request failed."""
        self.failures[kind] = self.failures.get(kind, 0) + 1

    @property
    def is_idle(self) -> bool:
        """Whether it has no consumers, and no messages since the last update."""
        return not self.consumers and self._seen == (self.sent, self.received)

    def update_rates(self, seconds: float) -> None:
        """Update the rates, so many seconds after the last update."""
        sent, received = self._seen
        self._seen = (self.sent, self.received)
        weight = 1 - math.exp(-seconds / _RATE_SECONDS)
        self.send_rate += weight * ((self.sent - sent) / seconds - self.send_rate)
        self.receive_rate += weight * (
            (self.received - received) / seconds - self.receive_rate
        )

    def rotate(self) -> None:
        """Begin another window of reply times, and forget the previous one."""
        self.older, self.waits = self.waits, {}

    def merge(self, other: AddressCounts) -> None:
        """Add the counts of *other*."""
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


class _CountsByAddress(dict[str, AddressCounts]):
    """Counters by address; a missing one is created, or counted with the others."""

    def __init__(self, others: AddressCounts) -> None:
        super().__init__()
        self._others = others

    def __missing__(self, address: str) -> AddressCounts:
        # Every reply has its own address.
        if len(self) >= MAX_ADDRESSES or address.startswith(PREFIX):
            return self._others
        return self.setdefault(address, AddressCounts())


class BusMetrics:
    """The counters of one bus, and access to its messages."""

    def __init__(
        self,
        outbound: InterceptorChain,
        requests: PendingRequests,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        #: Interceptors of messages being sent; a sampler is added here.
        self.outbound = outbound
        self._requests = requests
        self._clock = clock
        self._others = AddressCounts()
        self.counts: dict[str, AddressCounts] = _CountsByAddress(self._others)
        self._updated_at = self._rotated_at = clock()

    def facts(self) -> BusStats:
        """Return the statistics; every call updates the rates."""
        self._update()
        counts = list(self.counts.items())
        busiest = heapq.nlargest(MAX_REPORTED, counts, key=_load)
        reported = [each.facts(address) for address, each in busiest]
        rest = len(counts) - len(reported)
        return BusStats(
            _total([*(each for _, each in counts), self._others]),
            reported,
            rest + bool(self._others.sent or self._others.received),
            len(self._requests),
        )

    def _update(self) -> None:
        now = self._clock()
        seconds = now - self._updated_at
        if seconds <= 0:
            return
        self._updated_at = now
        rotates = now - self._rotated_at >= _WINDOW_SECONDS
        if rotates:
            self._rotated_at = now
        is_crowded = len(self.counts) > MAX_ADDRESSES // 2
        for address, counts in list(self.counts.items()):
            if is_crowded and counts.is_idle:
                del self.counts[address]
                self._others.merge(counts)
                continue
            _update_one(counts, seconds, rotates=rotates)
        _update_one(self._others, seconds, rotates=rotates)


def _update_one(counts: AddressCounts, seconds: float, *, rotates: bool) -> None:
    counts.update_rates(seconds)
    if rotates:
        counts.rotate()


def _load(item: tuple[str, AddressCounts]) -> tuple[float, int, int]:
    _, counts = item
    rate = counts.send_rate + counts.receive_rate
    return rate, counts.consumers, counts.sent + counts.received


def _total(all_counts: list[AddressCounts]) -> AddressStats:
    waits = [one for counts in all_counts for one in (counts.waits, counts.older)]
    failures = [counts.failures for counts in all_counts if counts.failures]
    return AddressStats(
        "",
        sum(counts.consumers for counts in all_counts),
        sum(counts.sent for counts in all_counts),
        sum(counts.received for counts in all_counts),
        round(sum(counts.send_rate for counts in all_counts), 2),
        round(sum(counts.receive_rate for counts in all_counts), 2),
        added(one for one in waits if one),
        counted(_named(one) for one in failures),
    )


def _named(failures: dict[FailureKind, int]) -> dict[str, int]:
    return {kind.name: number for kind, number in failures.items()}
