"""Reading what workers tallied: how far they are, how fast, and whether all ran."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.delivery import Undelivered
from benchmarks.peers.adapters.tally import HEADER, NANOSECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Between two looks, in seconds.
LOOK_SECONDS = 0.01
#: A drain in which nothing happens for so long has ended, in seconds.
STALLED_SECONDS = 25.0
#: After the last run: late repeats are to be seen, too.
SETTLE_SECONDS = 0.2
#: Pings that are not counted, or half of them if they are few: the first of them find
#: a worker that is still starting.
WARM_UP = 10
FEWEST_PINGS = 4


class Span(NamedTuple):
    """What one worker process did: runs, and ns of its first begin and last end."""

    runs: int
    first: int
    last: int


@dataclass(frozen=True)
class Drain:
    """A drain that ended."""

    jobs: int
    #: Runs of jobs that had run before.
    repeated: int
    #: Jobs a second while all workers were at work.
    rate: float


class Tallies:
    """The files that the workers of one run keep."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self._folder = folder
        self._jobs = jobs
        #: How many runs there were at what time, while nobody had yet to begin.
        self._looks: list[tuple[int, int]] = []

    def drained(self, check: Callable[[], None], *, workers: int) -> Drain:
        """
        Wait until every job ran; *check* is called at each look.

        Raises:
            Undelivered: Nothing happened for long, and jobs are left.
        """
        self._wait(check, workers)
        time.sleep(SETTLE_SECONDS)
        counts = self._counts()
        return Drain(
            jobs=self._jobs,
            repeated=sum(counts) - self._jobs,
            rate=self._rate(workers),
        )

    def waits_ms(self) -> list[float]:
        """
        Return how long pings waited, but for those that warmed the worker up.

        Raises:
            Undelivered: Too few arrived to say anything.
        """
        data = (self._folder / "pings").read_bytes()
        waits = [waited / 1e6 for (waited,) in NANOSECONDS.iter_unpack(data)]
        if len(waits) < FEWEST_PINGS:
            raise Undelivered(f"only {len(waits)} pings arrived in time")
        return waits[min(WARM_UP, len(waits) // 2) :]

    def _wait(self, check: Callable[[], None], workers: int) -> None:
        best, since = 0, time.monotonic()
        while not self._all_ran(best):
            time.sleep(LOOK_SECONDS)
            check()
            spans = self._look(workers)
            runs = sum(span.runs for span in spans)
            if runs > best:
                best, since = runs, time.monotonic()
            elif time.monotonic() - since > STALLED_SECONDS:
                ran = sum(map(bool, self._counts()))
                raise Undelivered(f"{ran} of {self._jobs} jobs ran, then none for long")

    def _look(self, workers: int) -> list[Span]:
        spans, at = self._spans(), time.monotonic_ns()
        if len(spans) == workers:
            self._looks.append((at, sum(span.runs for span in spans)))
        return spans

    def _all_ran(self, runs: int) -> bool:
        # The bytes are looked at only when they may be complete.
        return runs >= self._jobs and all(self._counts())

    def _rate(self, workers: int) -> float:
        spans = self._spans()
        last = max(span.last for span in spans)
        if workers == 1:
            return (self._jobs - 1) * 1e9 / (last - spans[0].first)
        # Processes do not start at the same instant; what the first does alone is no
        # part of what they do together.
        began, before = self._looks[0]
        runs = sum(span.runs for span in spans)
        if runs - before < self._jobs / 4:
            raise Undelivered("the second worker came too late to be measured")
        return (runs - before) * 1e9 / (last - began)

    def _spans(self) -> list[Span]:
        return [Span(*HEADER.unpack(data)) for data in self._heads() if any(data)]

    def _heads(self) -> list[bytes]:
        heads = [_read(path, HEADER.size) for path in self._folder.glob("ran.*")]
        return [head for head in heads if len(head) == HEADER.size]

    def _counts(self) -> list[int]:
        """Return how often each job ran, by all workers together."""
        files = [_read(path)[HEADER.size :] for path in self._folder.glob("ran.*")]
        full = [counts for counts in files if len(counts) == self._jobs]
        return [sum(counts) for counts in zip(*full, strict=True)] or [0] * self._jobs


def _read(path: Path, size: int = -1) -> bytes:
    with path.open("rb") as file:
        return file.read(size)
