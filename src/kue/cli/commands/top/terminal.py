"""
The terminal of ``kue top``: its modes, keys, size and signals.

Only here are bytes written to the terminal and read from it.  However the program ends,
short of SIGKILL, the terminal is as it was before.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
from typing import TYPE_CHECKING

from kue.aio.event_loop import on_signals
from kue.cli.commands.top.keys import KeyDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

#: How long the rest of a key may take to arrive; until then an escape is not a key.
ESCAPE_SECONDS = 0.1
READ_BYTES = 4096
#: The size of a terminal that does not report it.
COLUMNS, LINES = 80, 24
#: Another screen without a cursor, and back to the one before.
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[2J"
_LEAVE = "\x1b[0m\x1b[?25h\x1b[?1049l"
_LOCAL, _CONTROL_CHARACTERS = 3, 6


def is_interactive() -> bool:
    """Return whether keys can be read and frames drawn."""
    is_dumb = os.environ.get("TERM", "dumb") == "dumb"
    return sys.stdin.isatty() and sys.stdout.isatty() and not is_dumb


class Terminal:
    """
    The terminal of this process, drawn on and read from while it is `open`.

    *on_key* is called with each key, *on_change* when the screen has to be drawn again,
    *on_suspend* when the user wants the program suspended.
    """

    def __init__(
        self,
        *,
        on_key: Callable[[str], None],
        on_change: Callable[[], None],
        on_suspend: Callable[[], None],
    ) -> None:
        self._on_key = on_key
        self._on_change = on_change
        self._on_suspend = on_suspend
        self._input = sys.stdin.fileno()
        self._modes = termios.tcgetattr(self._input)
        self._decoder = KeyDecoder()
        self._flush: asyncio.TimerHandle | None = None
        self._drawn: list[str] = []

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Draw and read for as long as the context lasts."""
        loop = asyncio.get_running_loop()
        ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        with on_signals(
            {
                **dict.fromkeys(ends, self._interrupt),
                signal.SIGWINCH: self._redraw,
                signal.SIGTSTP: self._on_suspend,
                # After a stop that was not asked for here, such as by SIGSTOP.
                signal.SIGCONT: self._enter,
            }
        ):
            try:
                self._enter()
                loop.add_reader(self._input, self._read)
                yield
            finally:
                loop.remove_reader(self._input)
                self._leave()

    def suspend(self) -> None:
        """Stop this process as Ctrl-Z does; returns when it is continued."""
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()

    @staticmethod
    def size() -> tuple[int, int]:
        """Return columns and lines, of the terminal itself: it may be resized."""
        columns = lines = 0
        with contextlib.suppress(OSError):
            columns, lines = os.get_terminal_size(sys.stdout.fileno())
        return columns or COLUMNS, lines or LINES

    def draw(self, lines: Sequence[str]) -> None:
        """Write the lines that have changed: a connection may be slow."""
        before, text = self._drawn, ""
        if len(before) != len(lines):
            before, text = [""] * len(lines), "\x1b[2J"
        text += "".join(
            f"\x1b[{number};1H{line}\x1b[0m\x1b[K"
            for number, (line, old) in enumerate(zip(lines, before, strict=True), 1)
            if line != old
        )
        self._drawn = list(lines)
        if text:
            self._write(text)

    def _enter(self) -> None:
        with contextlib.suppress(termios.error):
            modes = termios.tcgetattr(self._input)
            # Keys at once and not echoed; Ctrl-C and Ctrl-Z are still signals.
            modes[_LOCAL] &= ~(termios.ICANON | termios.ECHO)
            modes[_CONTROL_CHARACTERS][termios.VMIN] = 1
            modes[_CONTROL_CHARACTERS][termios.VTIME] = 0
            termios.tcsetattr(self._input, termios.TCSADRAIN, modes)
        self._redraw(_ENTER)

    def _leave(self) -> None:
        self._write(_LEAVE)
        # The terminal may be gone.
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._input, termios.TCSADRAIN, self._modes)

    def _redraw(self, first: str = "\x1b[2J") -> None:
        self._drawn = []
        self._write(first)
        self._on_change()

    def _write(self, text: str) -> None:
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            self._interrupt()

    def _interrupt(self) -> None:
        self._on_key("interrupt")

    def _read(self) -> None:
        try:
            data = os.read(self._input, READ_BYTES)
        except OSError:
            data = b""
        if not data:
            # The terminal is gone: nobody looks.
            asyncio.get_running_loop().remove_reader(self._input)
            self._interrupt()
        self._pass_on(self._decoder.feed(data))
        if self._flush is not None:
            self._flush.cancel()
        if self._decoder.is_waiting:
            loop = asyncio.get_running_loop()
            self._flush = loop.call_later(ESCAPE_SECONDS, self._flush_keys)

    def _flush_keys(self) -> None:
        self._pass_on(self._decoder.flush())

    def _pass_on(self, keys: list[str]) -> None:
        for key in keys:
            if key == "redraw":
                self._redraw()
            else:
                self._on_key(key)
