"""
Histograms and percentiles of how long jobs wait and run.

A bucket is named by its upper bound in ms, and stores write that name: other bounds in
a later release would be added to these, without changing what they mean.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from kue.model.job import Job

#: Bucket → how many durations fell into it.
Counts = Mapping[int, int]

DAY_MS = 86_400_000
#: Each bound is about this much more than the one before.
GROWTH = 1.25


def _bounds() -> tuple[int, ...]:
    bounds = [1]
    while bounds[-1] < DAY_MS:
        bounds.append(min(max(bounds[-1] + 1, round(bounds[-1] * GROWTH)), DAY_MS))
    return tuple(bounds)


#: From a millisecond to a day; what takes longer counts as a day.
BOUNDS = _bounds()
KNOWN = frozenset(BOUNDS)


class Timing(msgspec.Struct, frozen=True):
    """How long jobs of one type waited and ran recently."""

    type: str
    #: From when a job could have run to when its run began.
    waits: dict[int, int] = {}
    #: Of runs that ended as complete, retry or failed.
    runs: dict[int, int] = {}


class Percentiles(msgspec.Struct, frozen=True):
    """Of all durations, half, 95 % and 99 % are no longer than this, in ms."""

    p50: int
    p95: int
    p99: int


def bucket(milliseconds: float) -> int:
    """Return the bucket that a duration falls into."""
    index = bisect_left(BOUNDS, milliseconds)
    return BOUNDS[index] if index < len(BOUNDS) else DAY_MS


def added(counts: Iterable[Counts]) -> dict[int, int]:
    """Return the sum of all *counts*, in the order of the buckets."""
    total: Counter[int] = Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))


def percentile(counts: Counts, share: float) -> int | None:
    """
    Return what *share* of all durations do not exceed; None when there are none.

    It is the bound of a bucket: up to about a quarter too much, never too little.
    """
    wanted = share * sum(counts.values())
    seen = 0
    for bound, number in sorted(counts.items()):
        seen += number
        if number and seen >= wanted:
            return bound
    return None


def percentiles(counts: Counts) -> Percentiles | None:
    """Return the percentiles that are shown; None when nothing was counted."""
    p50, p95, p99 = (percentile(counts, share) for share in (0.5, 0.95, 0.99))
    if p50 is None or p95 is None or p99 is None:
        return None
    return Percentiles(p50, p95, p99)


def ready_at(job: Job) -> int | None:
    """
    Return when a job became ready to run, Unix ms.

    None for one that waited for others and did not run yet: when they ended is not
    recorded.
    """
    if job.history:
        return job.history[-1].at + job.history[-1].delay
    if job.spec.after:
        return None
    return max(job.created_at + job.spec.delay, job.spec.at or 0)


def waiting_since(job: Job) -> int:
    """Return since when a waiting job has been ready, as far as that is known."""
    since = ready_at(job)
    return job.created_at if since is None else since
