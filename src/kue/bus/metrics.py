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
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kue.bus.requests import PREFIX
from kue.bus.stats import AddressStats, BusStats, summed
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


@dataclass(slots=True, eq=False)
class AddressCounts:
    """Counters of one address."""

    consumers: int = 0
    sent: int = 0
    received: int = 0
    send_rate: float = 0.0
    receive_rate: float = 0.0
    #: How long replies took, in this window and in the previous one.
    waits: Counter[int] = field(default_factory=Counter)
    older: Counter[int] = field(default_factory=Counter)
    #: By the name of a `FailureKind`.
    failures: Counter[str] = field(default_factory=Counter)
    #: Messages sent and received as of the last update.
    _seen: tuple[int, int] = (0, 0)

    def answered(self, seconds: float) -> None:
        """Record how long a reply took."""
        self.waits[bucket(seconds * 1000)] += 1

    def failed(self, kind: FailureKind) -> None:
        """Record that a request failed."""
        self.failures[kind.name] += 1

    @property
    def is_idle(self) -> bool:
        """Whether it has no consumers, and no messages since the last update."""
        return not self.consumers and self._seen == (self.sent, self.received)

    def update(self, seconds: float, *, rotates: bool) -> None:
        """Update the rates, so many seconds after the last update."""
        sent, received = self._seen
        self._seen = (self.sent, self.received)
        weight = 1 - math.exp(-seconds / _RATE_SECONDS)
        self.send_rate += weight * ((self.sent - sent) / seconds - self.send_rate)
        self.receive_rate += weight * (
            (self.received - received) / seconds - self.receive_rate
        )
        if rotates:
            # Another window of reply times begins.
            self.older, self.waits = self.waits, Counter()

    def merge(self, other: AddressCounts) -> None:
        """Add the counts of *other*."""
        self.sent += other.sent
        self.received += other.received
        self.failures.update(other.failures)
        sent, received = self._seen
        self._seen = (sent + other.sent, received + other.received)

    def facts(self, address: str) -> AddressStats:
        return AddressStats(
            address,
            self.consumers,
            self.sent,
            self.received,
            self.send_rate,
            self.receive_rate,
            added((self.waits, self.older)),
            self.failures,
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
        everything = [each.facts(address) for address, each in counts]
        rest = len(counts) - len(busiest)
        return BusStats(
            summed("", [*everything, self._others.facts("")]),
            [summed(address, [each.facts(address)]) for address, each in busiest],
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
            else:
                counts.update(seconds, rotates=rotates)
        self._others.update(seconds, rotates=rotates)


def _load(item: tuple[str, AddressCounts]) -> tuple[float, int, int]:
    _, counts = item
    rate = counts.send_rate + counts.receive_rate
    return rate, counts.consumers, counts.sent + counts.received
