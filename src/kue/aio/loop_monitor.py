"""
Monitor for blocked event loops: which line of code blocks a loop?

A thread pings the loop.  When it does not answer for longer than the limit, the thread
looks at what the loop's thread is doing and reports it, once for each time it is
blocked.  Code that holds the interpreter lock (a regular expression, a big sort) keeps
the monitor from looking, too.  It notices that it slept for too long and looks the
moment the lock is free, when the line that held it is still the one being run.
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
    from collections.abc import Callable, Collection
    from types import CodeType, FrameType

LIMIT_SECONDS = 1.0
#: Checks within the time of the limit, so that a block is reported soon.
CHECKS_PER_LIMIT = 4

_LIBRARY = sysconfig.get_path("stdlib")
_PACKAGES = sysconfig.get_path("purelib")
#: A loop that is in one of these waits for work.
_IDLE = (str(Path(asyncio.__file__).parent), selectors.__file__)


@dataclass(frozen=True, slots=True)
class BlockedLoop:
    """An event loop that was blocked, and where."""

    seconds: float
    file: str
    line: int
    function: str
    #: The innermost frame, for callers that read more from it; not to be kept.
    frame: FrameType = field(repr=False, compare=False)

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


class LoopProbe:
    """
    Pings one event loop, for a monitor that checks it at intervals.

    Args:
        thread: The thread that runs the loop.
        again: Whether each check reports a block again, or only the first does.
        idle: Further files, next to asyncio's, in which a loop waits for work.
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
        #: How often the loop was blocked, and how long its last answer took, in ms.
        self.count = 0
        self.lag_ms = 0
        self._pinged_at = time.monotonic()
        self._is_pinged = False
        #: Whether the loop was blocked at the last check, and has not run since.
        self.is_blocked = False

    def check(self, overslept: float) -> BlockedLoop | None:
        """
        Return what blocks the loop, if it is blocked for longer than the limit.

        Args:
            overslept: How much later than planned the monitor woke up.  Then some code
                holds the interpreter, or the machine slept.
        """
        blocked = overslept
        if self._is_pinged:
            blocked = max(blocked, time.monotonic() - self._pinged_at)
        if blocked <= self._limit or (self.is_blocked and not self._again):
            return None
        return self._find(blocked)

    def ping(self) -> bool:
        """Ping the loop, unless an answer is due; False when the loop was closed."""
        if self._is_pinged:
            return True
        self._pinged_at = time.monotonic()
        self._is_pinged = True
        try:
            self._loop.call_soon_threadsafe(self._answer)
        except RuntimeError:
            return False
        return True

    def _answer(self) -> None:
        self.lag_ms = round((time.monotonic() - self._pinged_at) * 1000)
        self.is_blocked = False
        self._is_pinged = False

    def _find(self, blocked: float) -> BlockedLoop | None:
        frame = sys._current_frames().get(self._thread)
        if frame is None or frame.f_code.co_filename.startswith(self._idle):
            return None
        self.count += 0 if self.is_blocked else 1
        self.is_blocked = True
        return blockage(blocked, frame)


class LoopMonitor(LoopProbe):
    """
    Monitors the running event loop from a separate thread.

    *report* is called in that thread.
    """

    def __init__(
        self, report: Callable[[BlockedLoop], None], *, limit: float = LIMIT_SECONDS
    ) -> None:
        super().__init__(asyncio.get_running_loop(), threading.get_ident(), limit=limit)
        self._report = report
        self._interval = limit / CHECKS_PER_LIMIT
        self._stopping = threading.Event()

    def start(self) -> None:
        threading.Thread(
            target=self._watch, name="kue blocked-loop watch", daemon=True
        ).start()

    def stop(self) -> None:
        self._stopping.set()

    def _watch(self) -> None:
        while True:
            overslept = oversleep(self._stopping, self._interval)
            # At once: a ping would let the loop go on.
            if (found := self.check(overslept)) is not None:
                self._report(found)
            if self._stopping.is_set() or not self.ping():
                return


def oversleep(stopping: threading.Event, interval: float) -> float:
    """Sleep for *interval* or until *stopping*; return how much longer it took."""
    began = time.monotonic()
    stopping.wait(interval)
    return time.monotonic() - began - interval


def blockage(blocked: float, frame: FrameType) -> BlockedLoop:
    """Return which code is in *frame*, which blocked the loop for *blocked* seconds."""
    linecache.checkcache()
    culprit = _culprit(frame)
    return BlockedLoop(
        seconds=blocked,
        file=culprit.f_code.co_filename,
        line=culprit.f_lineno,
        function=culprit.f_code.co_name,
        frame=frame,
    )


def frame_of(
    innermost: FrameType, codes: Collection[CodeType]
) -> tuple[FrameType | None, int | None]:
    """Return the frame around *innermost* that runs one of *codes*, and its depth."""
    frame: FrameType | None = innermost
    depth = 0
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back
        depth += 1
    return frame, None if frame is None else depth


def _culprit(innermost: FrameType) -> FrameType:
    """Return the innermost frame outside the standard library, if there is one."""
    frame: FrameType | None = innermost
    while frame is not None and _is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame or innermost


def _is_library(file: str) -> bool:
    return file.startswith(("<", _LIBRARY)) and not file.startswith(_PACKAGES)
