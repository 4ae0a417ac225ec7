"""Evaluation of the workers' tallies: progress, rate, and whether all jobs ran."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.delivery import Undelivered
from benchmarks.peers.adapters.tally import HEADER, NANOSECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Seconds between two reads.
LOOK_SECONDS = 0.01
#: A drain without progress for this many seconds has stalled.
STALLED_SECONDS = 25.0
#: Seconds to wait after the last run, to detect late repeats.
SETTLE_SECONDS = 0.2
#: Pings that are not counted, or half of them if they are few: the worker is still
#: starting when the first are sent.
WARM_UP = 10
FEWEST_PINGS = 4


class Span(NamedTuple):
    """The runs of one worker process, and ns of the first start and the last end."""

    runs: int
    first: int
    last: int


@dataclass(frozen=True)
class Drain:
    """A finished drain."""

    jobs: int
    #: Runs of jobs that had run before.
    repeated: int
    #: Jobs per second while all workers were at work.
    rate: float


class Tallies:
    """The tally files of the workers of one run."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self._folder = folder
        self._jobs = jobs
        #: Times and numbers of runs, since all workers have started.
        self._looks: list[tuple[int, int]] = []

    def drained(self, check: Callable[[], None], *, workers: int) -> Drain:
        """
        Wait until every job ran; *check* is called at each read.

        Raises:
            Undelivered: The drain has stalled, and jobs are left.
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
        Return how long pings waited, except those of the warm-up.

        Raises:
            Undelivered: Too few arrived.
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
        # The counts are read only when they may be complete.
        return runs >= self._jobs and all(self._counts())

    def _rate(self, workers: int) -> float:
        spans = self._spans()
        last = max(span.last for span in spans)
        if workers == 1:
            return (self._jobs - 1) * 1e9 / (last - spans[0].first)
        # Processes do not start at the same instant; runs before all of them have
        # started do not count.
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
