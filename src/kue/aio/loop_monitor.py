"""
The blocked-loop watch: who holds an event loop, and on which line?

A thread asks the loop for a sign of life.  When none comes for longer than the limit,
it looks at what the loop's thread is doing and tells, once for each time it is blocked.
Code that holds the interpreter lock (a regular expression, a big sort) keeps the watch
from looking too.  It notices that it slept for too long and looks the moment the lock
is free, when the line that held it is still the one being run.
"""

from __future__ import annotations

import asyncio
import linecache
import selectors
import sys
import sysconfig
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

LIMIT_SECONDS = 1.0
#: Looks in the time of the limit: a block is told of soon after it is one.
LOOKS = 4

_LIBRARY = sysconfig.get_path("stdlib")
_PACKAGES = sysconfig.get_path("purelib")
#: A loop that is in one of these waits for something to do.
_IDLE = (str(Path(asyncio.__file__).parent), selectors.__file__)


@dataclass(frozen=True, slots=True)
class BlockedLoop:
    """An event loop that was held."""

    seconds: float
    file: str
    line: int
    function: str
    #: The innermost frame, for whoever can read more from it; not to be kept.
    frame: FrameType = field(repr=False, compare=False)

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


class LoopProbe:
    """
    Asks one event loop for signs of life, for a watch that looks now and then.

    Args:
        thread: The thread that runs the loop.
        again: Whether each look finds a blockage again, or only the first.
        idle: Files besides asyncio's in which a loop waits for something to do.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        thread: int,
        *,
        limit: float,
        again: bool = False,
        idle: tuple[str, ...] = (),
    ) -> None:
        self._loop = loop
        self._thread = thread
        self._limit = limit
        self._again = again
        self._idle = (*_IDLE, *idle)
        #: How often the loop was held, and the longest sign of life lately, in ms.
        self.count = 0
        self.lag_ms = 0
        self._ticked = time.monotonic()
        self._is_asked = False
        #: Whether the loop was held when last looked at, and has not run since.
        self.is_held = False

    def look(self, overslept: float) -> BlockedLoop | None:
        """
        Return who holds the loop, if someone holds it for longer than the limit.

        Args:
            overslept: How much later than meant the watch woke up.  Whoever kept it
                from waking holds the interpreter, or the machine slept.
        """
        held = overslept
        if self._is_asked:
            held = max(held, time.monotonic() - self._ticked)
        if held <= self._limit or (self.is_held and not self._again):
            return None
        return self._find(held)

    def ask(self) -> bool:
        """Ask for a sign, if none is awaited; False when the loop was closed."""
        if self._is_asked:
            return True
        self._ticked = time.monotonic()
        self._is_asked = True
        try:
            self._loop.call_soon_threadsafe(self._tick)
        except RuntimeError:
            return False
        return True

    def _tick(self) -> None:
        self.lag_ms = round((time.monotonic() - self._ticked) * 1000)
        self.is_held = False
        self._is_asked = False

    def _find(self, held: float) -> BlockedLoop | None:
        frame = sys._current_frames().get(self._thread)
        if frame is None or frame.f_code.co_filename.startswith(self._idle):
            return None
        self.count += 0 if self.is_held else 1
        self.is_held = True
        return blockage(held, frame)


class LoopMonitor:
    """
    Watches the running event loop from a thread of its own.

    *tell* is called in that thread.
    """

    def __init__(
        self, tell: Callable[[BlockedLoop], None], *, limit: float = LIMIT_SECONDS
    ) -> None:
        self._tell = tell
        self._nap = limit / LOOKS
        self._probe = LoopProbe(
            asyncio.get_running_loop(), threading.get_ident(), limit=limit
        )
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="kue blocked-loop watch", daemon=True
        )

    @property
    def count(self) -> int:
        return self._probe.count

    @property
    def lag_ms(self) -> int:
        return self._probe.lag_ms

    @property
    def is_held(self) -> bool:
        """Whether the loop was held when last looked at, and has not run since."""
        return self._probe.is_held

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        while True:
            overslept = oversleep(self._over, self._nap)
            # At once: asking would let the loop go on.
            if (found := self._probe.look(overslept)) is not None:
                self._tell(found)
            if self._over.is_set() or not self._probe.ask():
                return


def oversleep(over: threading.Event, nap: float) -> float:
    """Sleep until *over* or the next look; return how much longer than *nap*."""
    began = time.monotonic()
    over.wait(nap)
    return time.monotonic() - began - nap


def blockage(held: float, frame: FrameType) -> BlockedLoop:
    """Return who is at work in *frame*, which was held for that many seconds."""
    linecache.checkcache()
    guilty = _guilty(frame)
    return BlockedLoop(
        seconds=held,
        file=guilty.f_code.co_filename,
        line=guilty.f_lineno,
        function=guilty.f_code.co_name,
        frame=frame,
    )


def _guilty(innermost: FrameType) -> FrameType:
    """Return the innermost frame outside the standard library, if there is one."""
    frame: FrameType | None = innermost
    while frame is not None and _is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame or innermost


def _is_library(file: str) -> bool:
    return file.startswith(("<", _LIBRARY)) and not file.startswith(_PACKAGES)
