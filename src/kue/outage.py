"""
Going on while the store is away: try again, and say so once.

Whoever works for a queue (a worker's lanes, its beat, its upkeep, a listener) repeats
what the store could not do, for ever and with jitter.  An outage is one line in the log
when it begins and one when it is over, however many parties feel it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from typing import TYPE_CHECKING, TypeVar

from kue.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Pauses grow from the first to the longest, in seconds.  A worker must be back within
#: two seconds of its store, so the longest is short.
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0


class Outage:
    """Repeats calls until they succeed, and tells of the outage they meet."""

    def __init__(self, store_name: str) -> None:
        self._store_name = store_name
        self._began = 0.0
        #: Who was refused and has not succeeded since.
        self._waiting: set[str] = set()

    async def persist(self, who: str, call: Callable[[], Awaitable[T]]) -> T:
        """Return what *call* returns, however many times it takes."""
        failures = 0
        while True:
            try:
                result = await call()
            except Exception as exc:
                self._begin(who, exc)
                await asyncio.sleep(_pause(failures))
                failures += 1
            else:
                if failures:
                    self._end(who)
                return result

    def _begin(self, who: str, exc: Exception) -> None:
        if not self._waiting:
            self._began = time.monotonic()
            # A store that is away needs no traceback; anything else is a fault of ours.
            is_fault = not isinstance(exc, StoreError)
            logger.warning(
                "%s does not answer, trying until it does: %s",
                self._store_name,
                exc,
                exc_info=exc if is_fault else None,
            )
        self._waiting.add(who)

    def _end(self, who: str) -> None:
        self._waiting.discard(who)
        if not self._waiting:
            away = time.monotonic() - self._began
            logger.warning("%s answers again after %.1f s", self._store_name, away)


def _pause(failures: int) -> float:
    # Scattered over the whole range: a thousand workers that lost the store together
    # must not come back together.
    longest = min(FIRST_PAUSE * 2 ** min(failures, 16), LONGEST_PAUSE)
    return random.uniform(FIRST_PAUSE / 2, longest)
