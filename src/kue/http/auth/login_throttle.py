"""Login throttle: slows down guessing of passwords, with bounded memory."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class _Tries:
    number: int
    #: When the last one was.
    at: float


class LoginThrottle:
    """
    Counts tries by key: some are free, then each doubles the wait.

    Tries are counted when they begin, so that concurrent ones count, too.  The counters
    are those of one process; several servers each allow as many.
    """

    def __init__(
        self,
        free: int,
        *,
        longest: float = 300.0,
        forget: float = 900.0,
        size: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._free = free
        self._longest = longest
        self._forget = forget
        self._size = size
        self._clock = clock
        self._tries: OrderedDict[str, _Tries] = OrderedDict()

    def wait(self, key: str) -> int:
        """Return how many seconds *key* must wait; 0 if it may try now."""
        tries = self._current(key)
        if tries is None or tries.number < self._free:
            return 0
        cost = min(self._longest, 2.0 ** (tries.number - self._free))
        return max(0, math.ceil(tries.at + cost - self._clock()))

    def count(self, key: str) -> None:
        """Count a try."""
        tries = self._current(key)
        number = 1 if tries is None else min(tries.number + 1, self._free + 64)
        self._tries[key] = _Tries(number, self._clock())
        self._tries.move_to_end(key)
        if len(self._tries) > self._size:
            self._tries.popitem(last=False)

    def clear(self, key: str) -> None:
        """Forget the tries of *key*."""
        self._tries.pop(key, None)

    def uncount(self, key: str) -> None:
        """Take back the last try of *key*, which succeeded."""
        tries = self._current(key)
        if tries is not None:
            tries.number -= 1

    def _current(self, key: str) -> _Tries | None:
        tries = self._tries.get(key)
        if tries is not None and self._clock() - tries.at > self._forget:
            del self._tries[key]
            return None
        return tries
