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
