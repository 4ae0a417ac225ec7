"""Signals of the supervisor: stop, restart, suspend."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from kue.aio.event_loop import on_signals

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager


def handled_signals(
    *,
    stop: Callable[[], None],
    restart: Callable[[], None],
    suspend: Callable[[], None],
) -> AbstractContextManager[None]:
    """
    Call these functions for signals, for as long as the context lasts.

    SIGINT and SIGTERM stop, SIGHUP restarts, SIGTSTP (Ctrl-Z) suspends.  A SIGHUP from
    a terminal that was closed stops, too.
    """
    terminal = _terminal()

    def hang_up() -> None:
        if terminal is not None and not _is_open(terminal):
            stop()
        else:
            restart()

    return on_signals(
        {
            signal.SIGINT: stop,
            signal.SIGTERM: stop,
            signal.SIGHUP: hang_up,
            signal.SIGTSTP: suspend,
        }
    )


def _terminal() -> int | None:
    for stream in (sys.__stdin__, sys.__stderr__):
        if stream is not None and stream.isatty():
            return stream.fileno()
    return None


def _is_open(terminal: int) -> bool:
    try:
        os.tcgetpgrp(terminal)
    except OSError:
        return False
    return True
