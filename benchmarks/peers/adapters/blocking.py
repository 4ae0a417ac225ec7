"""The producer for queues with a blocking API."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from benchmarks.peers.adapters.pace import (
    BULK,
    IDLE_SECONDS,
    LOOK_SECONDS,
    THREADS,
    TOGETHER,
    Adds,
    Patience,
    Pings,
    seconds_since,
)
from benchmarks.peers.adapters.tally import arrivals, now

if TYPE_CHECKING:
    from collections.abc import Sequence


class Producer:
    """Adds jobs; verbs return the seconds they took."""

    def add(self, task: str, number: int) -> None:
        raise NotImplementedError

    def add_many(self, task: str, numbers: range) -> None:
        """Add in bulk; one after the other where a queue has no bulk call."""
        for number in numbers:
            self.add(task, number)

    def measure(self, verb: str, arguments: Sequence[str]) -> float:
        if verb == "ping":
            return self.ping(Pings(arguments))
        add = {"one": self.one, "together": self.together, "bulk": self.bulk}[verb]
        return add(Adds.of(arguments))

    def one(self, adds: Adds) -> float:
        began = now()
        for number in adds.numbers:
            self.add(adds.task, number)
        return seconds_since(began)

    def together(self, adds: Adds) -> float:
        with ThreadPoolExecutor(THREADS) as threads:
            began = now()
            for some in adds.slices(TOGETHER):
                shares = [some[start::THREADS] for start in range(THREADS)]
                list(
                    threads.map(lambda share: self._add_each(adds.task, share), shares)
                )
            return seconds_since(began)

    def _add_each(self, task: str, numbers: range) -> None:
        for number in numbers:
            self.add(task, number)

    def bulk(self, adds: Adds) -> float:
        began = now()
        for some in adds.slices(BULK):
            self.add_many(adds.task, some)
        return seconds_since(began)

    def ping(self, pings: Pings) -> float:
        began = now()
        for sent in pings:
            self.add("ping", now())
            patience = Patience()
            while arrivals() <= sent:
                patience.check()
                time.sleep(LOOK_SECONDS)
            time.sleep(IDLE_SECONDS)
        return seconds_since(began)
