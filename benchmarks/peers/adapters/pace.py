"""The pace at which jobs are added, the same for every queue."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.peers.adapters.tally import now

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Jobs per bulk call.
BULK = 1_000
#: Adds in flight.
TOGETHER = 100
#: Threads that share them where adding blocks.
THREADS = 8
#: Seconds between two checks whether a ping arrived.
LOOK_SECONDS = 0.0003
#: Seconds for which a worker is idle between two pings.
IDLE_SECONDS = 0.005
#: Longer than any worker takes to start.
PATIENCE_SECONDS = 30.0


class Adds(NamedTuple):
    """Jobs to add: the task, and the numbers of the jobs."""

    task: str
    numbers: range

    @classmethod
    def of(cls, arguments: Sequence[str]) -> Adds:
        task, first, count = arguments
        return cls(task, range(int(first), int(first) + int(count)))

    def slices(self, size: int) -> Iterator[range]:
        for start in range(0, len(self.numbers), size):
            yield self.numbers[start : start + size]


class Pings:
    """Jobs sent one at a time to an idle worker, up to a number and a time limit."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._count, self._seconds = int(arguments[0]), float(arguments[1])
        self._began = now()

    def __iter__(self) -> Iterator[int]:
        """Yield how many were sent before this one; at least one is sent."""
        for sent in range(self._count):
            if not sent or seconds_since(self._began) < self._seconds:
                yield sent


class Patience:
    """A time limit for the arrival of a ping."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + PATIENCE_SECONDS

    def check(self) -> None:
        if time.monotonic() > self._deadline:
            raise TimeoutError(f"a ping did not arrive within {PATIENCE_SECONDS:.0f} s")


def seconds_since(began: int) -> float:
    return (now() - began) / 1e9
