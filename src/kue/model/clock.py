"""
Clocks, for code that must not ask the operating system for the time itself.

The store's own clock decides every time that is stored; these clocks serve the
embedded engine and the waiting done in this process.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Returns Unix time in milliseconds."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The operating system's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class FakeClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, start_ms: int = 1_800_000_000_000) -> None:
        self._now = start_ms

    def now_ms(self) -> int:
        return self._now

    def advance(self, milliseconds: int) -> int:
        """Move the clock (back, if negative) and return the new time."""
        self._now += milliseconds
        return self._now
