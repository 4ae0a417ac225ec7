"""A clock that tests set."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from weakref import WeakMethod

from kue.model.clock import SystemClock
from kue.model.duration import Duration, epoch_ms, milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock:
    """
    A clock that stands still until a test sets it::

        clock = kue.testing.Clock()
        q = kue.Kue("memory://", clock=clock)
        clock.advance("2d")

    Delays, backoff, schedules, expiry, unique keys, rate limits and the sleeps of jobs
    follow it.  Timeouts of a run are of the real time, as is whatever your own code
    asks the operating system for.

    Args:
        start: What it shows first, an aware datetime; the real time by default.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._now = (
            SystemClock().now_ms() if start is None else epoch_ms(start, field="start")
        )
        self._callbacks: list[WeakMethod[Callable[[], object]]] = []

    def __repr__(self) -> str:
        return f"<Clock at {self.now.isoformat()}>"

    @property
    def now(self) -> datetime:
        """What it shows, in UTC."""
        return _EPOCH + timedelta(milliseconds=self._now)

    def now_ms(self) -> int:
        """Return what it shows, as Unix ms."""
        return self._now

    def advance(self, duration: Duration) -> datetime:
        """
        Set it forward by *duration*, such as "2d", and return what it shows.

        Jobs become due; `kue.testing.run_all` runs them.
        """
        return self._set(self._now + milliseconds(duration, field="duration"))

    def move_to(self, moment: datetime) -> datetime:
        """
        Set it forward to *moment*, an aware datetime.

        Raises:
            ValueError: That is in the past.
        """
        return self._set(epoch_ms(moment, field="moment"))

    def on_move(self, callback: Callable[[], object]) -> None:
        """Call *callback*, a method, each time it was set; the method is not kept."""
        self._callbacks.append(WeakMethod(callback))

    def _set(self, now: int) -> datetime:
        if now < self._now:
            raise ValueError(
                "the clock cannot be set back: the store has recorded times that would "
                "be in the future; begin with another clock and another queue"
            )
        self._now = now
        for reference in self._callbacks:
            if callback := reference():
                callback()
        return self.now
