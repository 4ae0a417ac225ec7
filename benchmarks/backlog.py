"""
Does a long line slow down its head?

Two stores of one engine, each in a place of its own, are treated alike: add a thousand
jobs (not timed), run the thousand oldest (timed), again and again, by turns.  They
differ in what waits behind those: a thousand jobs in one, a million in the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.scale import MILLION, THOUSAND
from benchmarks.steps import in_turn

if TYPE_CHECKING:
    from benchmarks.through_store import ThroughStore

#: Drafts, added again and again: a million would take more memory than the jobs.
PREPARED = 100_000


class Backlog:
    """A short line and a long one."""

    def __init__(self, short: ThroughStore, long: ThroughStore) -> None:
        self._short = short
        self._long = long

    async def fill(self) -> None:
        """Let the jobs wait that are to wait."""
        await self._short.add(0, THOUSAND)
        for _ in range(MILLION // PREPARED):
            await self._long.add(0, PREPARED)

    async def measure(self, pieces: int) -> list[float]:
        """Return rate of the long line ÷ rate of the short one, piece by piece."""
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
