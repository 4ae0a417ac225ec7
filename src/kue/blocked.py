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
class Blockage:
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


class BlockedWatch:
    """
    Watches the running event loop from a thread of its own.

    *tell* is called in that thread.
    """

    def __init__(
        self, tell: Callable[[Blockage], None], *, limit: float = LIMIT_SECONDS
    ) -> None:
        self._tell = tell
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._over = threading.Event()
        #: How often the loop was held, and the longest sign of life lately, in ms.
        self.count = 0
        self.lag_ms = 0
        self._ticked = time.monotonic()
        self._is_asked = False
        self._is_told = False
        self._thread = threading.Thread(
            target=self._watch, name="kue blocked-loop watch", daemon=True
        )

    @property
    def is_held(self) -> bool:
        """Whether the loop was held when last looked at, and has not run since."""
        return self._is_told

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()

    def _watch(self) -> None:
        while True:
            # Whoever keeps us from waking holds the interpreter, or the machine slept.
            held = self._sleep()
            if self._is_asked:
                held = max(held, time.monotonic() - self._ticked)
            # At once: asking would let the loop go on.
            if held > self._limit and not self._is_told:
                self._look(held)
            if self._over.is_set() or not (self._is_asked or self._ask()):
                return

    def _sleep(self) -> float:
        """Sleep until the next look; return how much longer it took than it should."""
        nap = self._limit / LOOKS
        began = time.monotonic()
        self._over.wait(nap)
        return time.monotonic() - began - nap

    def _ask(self) -> bool:
        self._ticked = time.monotonic()
        self._is_asked = True
        try:
            self._loop.call_soon_threadsafe(self._tick)
        except RuntimeError:
            # The loop was closed.
            return False
        return True

    def _tick(self) -> None:
        self.lag_ms = round((time.monotonic() - self._ticked) * 1000)
        self._is_told = False
        self._is_asked = False

    def _look(self, held: float) -> None:
        frame = sys._current_frames().get(self._watched)
        if frame is None or frame.f_code.co_filename.startswith(_IDLE):
            return
        self._is_told = True
        self.count += 1
        self._tell(_blockage(held, frame))


def _blockage(held: float, frame: FrameType) -> Blockage:
    linecache.checkcache()
    guilty = _guilty(frame)
    return Blockage(
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
