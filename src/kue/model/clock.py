"""
Clocks, for code that must not ask the operating system for the time itself.

The store's own clock decides every time that is stored; these clocks serve the
embedded engine and the waiting done in this process.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable


class TimeSource(Protocol):
    """Returns Unix time in milliseconds."""

    def now_ms(self) -> int: ...


@runtime_checkable
class MovableClock(TimeSource, Protocol):
    """A clock that is set by a program, such as `kue.testing.Clock`."""

    def on_move(self, callback: Callable[[], object]) -> None:
        """Call *callback*, a method, each time it was set; the method is not kept."""
        ...


class SystemClock:
    """The operating system's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000
