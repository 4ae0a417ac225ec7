"""
Comparison of contenders that do the same work in turn.

Other processes slow the machine down for moments and for minutes.  Alternating pieces
of work that take some hundredths of a second meet the same conditions, so the ratio of
each pair is meaningful, and the median of many pairs is reliable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from benchmarks.steps import in_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.readings import Readings


class Contender(Protocol):
    """Can add and run jobs, starting with an empty store."""

    async def add(self, first: int, last: int) -> float:
        """Add the jobs numbered *first* to *last* - 1; return the seconds it took."""

    async def drain(self, jobs: int) -> float:
        """Run *jobs* of those that wait; return the seconds it took."""

    async def check_all_ran(self) -> None:
        """Raise `Undelivered` unless everything that was added ran, once."""


class Rival(NamedTuple):
    """A contender, and the figures it is measured for."""

    contender: Contender
    add: str
    drain: str


async def compete(
    rivals: Sequence[Rival], readings: Readings, *, jobs: int, piece: int
) -> None:
    """Let each rival add *jobs* and run them, a *piece* at a time, in turn."""
    for number, first in enumerate(range(0, jobs, piece)):
        for rival in in_turn(rivals, number):
            seconds = await rival.contender.add(first, first + piece)
            readings.add(rival.add, piece / seconds)
    for number in range(jobs // piece):
        for rival in in_turn(rivals, number):
            seconds = await rival.contender.drain(piece)
            readings.add(rival.drain, piece / seconds)
    for rival in rivals:
        await rival.contender.check_all_ran()
