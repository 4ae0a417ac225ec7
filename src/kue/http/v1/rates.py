"""Rates of jobs: counters of the last minutes, summed by type and per second."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from kue.store import values
from kue.store.values import Stat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kue.client.queue import Kue

MINUTE_MS = 60_000
#: Full minutes that rates are averaged over.
RATE_MINUTES = 5
#: A queue without a job in the minutes before those, up to this many ago, is new.
QUIET_MINUTES = 15

#: Counters of a time without activity.
NOTHING = Stat(0, "")

K = TypeVar("K")


class Rates(msgspec.Struct, frozen=True):
    """Jobs per second, over the last five full minutes."""

    added: float = 0
    complete: float = 0
    failed: float = 0


class Recent(NamedTuple):
    """Counters of the last minutes."""

    #: For rates: those of full minutes, or all of a queue that is new.
    full: list[Stat]
    #: The time that they cover.
    seconds: int
    #: With the current minute, for what is shown at once.
    all: list[Stat]


async def recent(q: Kue, now: int) -> Recent:
    """Return the counters for rates and percentiles."""
    minute = now // MINUTE_MS
    return recent_of(await q.stats(minute - QUIET_MINUTES, minute), now)


def recent_of(found: Sequence[Stat], now: int) -> Recent:
    """Return what `recent` does, of the counters of the last `QUIET_MINUTES`."""
    minute = now // MINUTE_MS
    late = [stat for stat in found if stat.minute >= minute - RATE_MINUTES]
    if late and len(late) == len(found):
        # A new queue: its jobs are not averaged over the minutes before it.
        since = min(stat.minute for stat in late) * 60
        seconds = min(RATE_MINUTES * 60, max(60, now // 1000 - since))
        return Recent(late, seconds, late)
    full = [stat for stat in late if stat.minute < minute]
    return Recent(full, RATE_MINUTES * 60, late)


def summed(stats: Iterable[Stat], key: Callable[[Stat], K]) -> dict[K, Stat]:
    """Return the sums of all counters that have the same *key*."""
    by_key: dict[K, list[Stat]] = {}
    for stat in stats:
        by_key.setdefault(key(stat), []).append(stat)
    return {one: total(of_one) for one, of_one in by_key.items()}


def sums_by_type(stats: Iterable[Stat]) -> dict[str, Stat]:
    """Return the sums of all counters of each type."""
    return summed(stats, lambda stat: stat.type)


def total(stats: Sequence[Stat]) -> Stat:
    """Return the sums of all counters."""
    return values.summed(0, "", stats)


def rates_of(sums: Stat, seconds: int) -> Rates:
    """Return the sums of *seconds* as rates per second."""
    numbers = (sums.added, sums.complete, sums.failed)
    return Rates(*(round(number / seconds, 4) for number in numbers))


def drain_ms(waiting: int, sums: Stat, seconds: int) -> int | None:
    """
    Return how long the waiting jobs take at the rate of the last *seconds*, in ms.

    As if no more were added; None if none ended in that time.
    """
    if not waiting:
        return 0
    return waiting * seconds * 1000 // sums.ended if sums.ended else None
