"""Timers: handlers that are called later, once or periodically."""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kue.aio.loop_calls import call_in, running
from kue.model.duration import Duration, milliseconds
from kue.runtime.errors import RuntimeClosed

if TYPE_CHECKING:
    import asyncio

    from kue.runtime.context import Context

#: Called with the timer's id.
TimerHandler = Callable[[int], Awaitable[object] | object]


class TimerCall:
    """Calls *function* on *loop* in so many seconds, unless it is cancelled."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        function: Callable[[], object],
    ) -> None:
        self._loop = loop
        self._due = time.monotonic() + seconds
        self._function: Callable[[], object] | None = function
        self._handle: asyncio.TimerHandle | None = None
        if running() is loop:
            self._set()
        else:
            loop.call_soon_threadsafe(self._set)

    def cancel(self) -> None:
        """Do not call it; from any thread."""
        self._function = None
        call_in(self._loop, self._unset)

    def _set(self) -> None:
        left = max(0.0, self._due - time.monotonic())
        self._handle = self._loop.call_later(left, self._call)

    def _unset(self) -> None:
        if self._handle is not None:
            self._handle.cancel()

    def _call(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function()


class Timers:
    """The timers of a runtime, by id."""

    def __init__(self) -> None:
        self._timers: dict[int, _Timer] = {}
        self._numbers = itertools.count(1)

    def set(
        self,
        context: Context,
        delay: Duration,
        handler: TimerHandler,
        *,
        is_periodic: bool,
    ) -> int:
        """Call *handler* in *context* after *delay*; return the timer's id."""
        ms = milliseconds(delay, field="delay")
        if ms < 1:
            raise ValueError("Cannot schedule a timer with delay < 1 ms")
        number = next(self._numbers)
        timer = _Timer(self._timers, number, context, handler, ms / 1000, is_periodic)
        self._timers[number] = timer
        timer.start()
        return number

    def cancel(self, number: int) -> bool:
        """Cancel a timer; False if it has ended or never existed."""
        timer = self._timers.get(number)
        return timer is not None and timer.cancel()


@dataclass(eq=False)
class _Timer:
    _timers: dict[int, _Timer]
    _number: int
    _context: Context
    _handler: TimerHandler
    _seconds: float
    _is_periodic: bool
    _timer_call: TimerCall | None = None
    _is_running: bool = False

    def start(self) -> None:
        self._due = time.monotonic() + self._seconds
        self._context.add_close_hook(self.cancel)
        self._wait()

    def cancel(self) -> bool:
        if not self._forget():
            return False
        if self._timer_call is not None:
            self._timer_call.cancel()
        return True

    def _forget(self) -> bool:
        """Remove it; only the first caller runs or cancels it, and gets True."""
        self._context.remove_close_hook(self.cancel)
        return self._timers.pop(self._number, None) is not None

    def _wait(self) -> None:
        seconds = self._due - time.monotonic()
        self._timer_call = TimerCall(self._context.loop, seconds, self._fire)

    def _fire(self) -> None:
        if self._number not in self._timers:
            return
        if self._is_periodic:
            self._advance()
            self._wait()
            if self._is_running:
                # Calls of a handler that is slower than its timer must not pile up.
                return
        self._is_running = True
        try:
            self._context.queue(self._tick, self._finished)
        except RuntimeClosed:
            self._forget()

    def _advance(self) -> None:
        """Advance by whole periods: the rate is kept, and missed calls are skipped."""
        late = time.monotonic() - self._due
        self._due += self._seconds * (1 + max(0, late // self._seconds))

    def _tick(self) -> object:
        is_wanted = (
            self._number in self._timers if self._is_periodic else self._forget()
        )
        return self._handler(self._number) if is_wanted else None

    def _finished(self) -> None:
        self._is_running = False
