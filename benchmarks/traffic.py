"""Traffic: calls in batches, several in flight."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence

T = TypeVar("T")

#: Jobs per add: the most that one call of a store takes.
ADD_BATCH = 500
#: Jobs per cycle.
TAKE = 100
#: Cycles in flight: Redis and Python work at the same time.
LANES = 2


def batches(things: Sequence[T], size: int = ADD_BATCH) -> Iterator[Sequence[T]]:
    """Cut *things* into pieces of *size*."""
    for start in range(0, len(things), size):
        yield things[start : start + size]


async def send(
    pieces: Iterator[T], call: Callable[[int, T], Awaitable[None]], *, flights: int
) -> None:
    """Make *call* (flight, piece) for each piece, with *flights* calls in flight."""

    async def flight(number: int) -> None:
        for piece in pieces:
            await call(number, piece)

    await asyncio.gather(*(flight(number) for number in range(flights)))


class Quota:
    """The number of jobs still to claim, shared by all lanes."""

    def __init__(self, jobs: int) -> None:
        self._left = jobs

    def take(self) -> int:
        """Return how many the next cycle should claim; 0 if it only settles."""
        share = min(TAKE, self._left)
        self._left -= share
        return share
