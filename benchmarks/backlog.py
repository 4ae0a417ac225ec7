"""
Backlog: does a long queue slow down claims?

Two separate stores of one engine are treated alike: add a thousand jobs (not timed),
run the thousand oldest (timed), repeatedly, in turn.  They differ in their backlog: a
thousand jobs in one, a million in the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.scale import MILLION, THOUSAND
from benchmarks.steps import in_turn

if TYPE_CHECKING:
    from benchmarks.through_store import ThroughStore

#: Drafts, added repeatedly: a million would take more memory than the jobs.
PREPARED = 100_000


class Backlog:
    """A short backlog and a long one."""

    def __init__(self, short: ThroughStore, long: ThroughStore) -> None:
        self._short = short
        self._long = long

    async def fill(self) -> None:
        """Add the jobs of both backlogs."""
        await self._short.add(0, THOUSAND)
        for _ in range(MILLION // PREPARED):
            await self._long.add(0, PREPARED)

    async def measure(self, pieces: int) -> list[float]:
        """Return rate with the long backlog ÷ rate with the short one, per piece."""
        ratios = []
        for number in range(pieces):
            seconds = {}
            for store in in_turn((self._short, self._long), number):
                await store.add(0, THOUSAND)
                seconds[store] = await store.drain(THOUSAND)
            ratios.append(seconds[self._short] / seconds[self._long])
        return ratios

    async def check(self) -> None:
        """Raise `Undelivered` unless the oldest ran, once each, and the rest waits."""
        await self._short.check_first_ran()
        await self._long.check_first_ran()
