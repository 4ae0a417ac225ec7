"""Slows down who guesses passwords; remembers a bounded number of them."""

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
    #: When the last was.
    at: float


class LoginThrottle:
    """
    Counts tries by key: some are free, after which each costs twice the wait before.

    Counted when they begin, so that many at once are many.  It is the memory of one
    process; several servers each allow as many.
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
        """Return for how many seconds *key* must not try; 0 when it may."""
        tries = self._known(key)
        if tries is None or tries.number < self._free:
            return 0
        cost = min(self._longest, 2.0 ** (tries.number - self._free))
        return max(0, math.ceil(tries.at + cost - self._clock()))

    def count(self, key: str) -> None:
        """Count a try."""
        tries = self._known(key)
        number = 1 if tries is None else min(tries.number + 1, self._free + 64)
        self._tries[key] = _Tries(number, self._clock())
        self._tries.move_to_end(key)
        if len(self._tries) > self._size:
            self._tries.popitem(last=False)

    def clear(self, key: str) -> None:
        """Forget the tries of *key*."""
        self._tries.pop(key, None)

    def pardon(self, key: str) -> None:
        """Take back the last try of *key*: it was right."""
        tries = self._known(key)
        if tries is not None:
            tries.number -= 1

    def _known(self, key: str) -> _Tries | None:
        tries = self._tries.get(key)
        if tries is not None and self._clock() - tries.at > self._forget:
            del self._tries[key]
            return None
        return tries
