"""
A terminal for a test: a program that runs on it, what it shows, and keys to press.

It knows as much of terminals as ``kue top`` uses of them.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.patience import PATIENCE_SECONDS

_SEQUENCE = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])")
#: A sequence that has not arrived as a whole.
_BEGINNING = re.compile(r"\x1b(\[\??[0-9;]*)?$")


class Screen:
    """What a terminal shows, by the bytes that were written to it."""

    def __init__(self) -> None:
        self.lines: dict[int, str] = {}
        #: Whether another screen than that of the shell is shown, and the cursor.
        self.is_other = False
        self.has_cursor = True
        self._row, self._column = 1, 0
        self._text = ""

    @property
    def text(self) -> str:
        return "\n".join(self.lines[row].rstrip() for row in sorted(self.lines))

    def write(self, data: str) -> None:
        self._text += data
        while self._text:
            if found := _SEQUENCE.match(self._text):
                self._text = self._text[found.end() :]
                self._control(*found.groups())
            elif _BEGINNING.match(self._text):
                return
            else:
                self._put(self._text[0])
                self._text = self._text[1:]

    def _put(self, character: str) -> None:
        if character == "\n":
            self._row, self._column = self._row + 1, 0
        elif character != "\r":
            line = self.lines.get(self._row, "").ljust(self._column)
            end = line[self._column + 1 :]
            self.lines[self._row] = line[: self._column] + character + end
            self._column += 1

    def _control(self, private: str, numbers: str, verb: str) -> None:
        match private, verb, numbers:
            case "?", "h" | "l", "1049":
                self.is_other = verb == "h"
                self.lines.clear()
            case "?", "h" | "l", "25":
                self.has_cursor = verb == "h"
            case "", "H", _:
                row, column = (int(number) for number in numbers.split(";"))
                self._row, self._column = row, column - 1
            case "", "J", "2":
                self.lines.clear()
            case "", "K", _:
                line = self.lines.get(self._row, "")
                self.lines[self._row] = line[: self._column]
            case "", "m", _:
                pass
            case unknown:
                raise AssertionError(f"unknown sequence {unknown}")


class TerminalProgram:
    """A program on a terminal of its own."""

    def __init__(
        self, *command: str, environ: Mapping[str, str], columns: int, lines: int
    ) -> None:
        self.screen = Screen()
        self._ours, self._theirs = pty.openpty()
        self.resize(columns, lines, announce=False)
        self._modes_before = self.modes
        self.process = subprocess.Popen(
            command,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env={
                name: value
                for name, value in {**environ, "TERM": "xterm"}.items()
                if name not in ("COLUMNS", "LINES", "NO_COLOR")
            },
            start_new_session=True,
        )

    def __enter__(self) -> TerminalProgram:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)

    @property
    def modes(self) -> list[Any]:
        return termios.tcgetattr(self._theirs)

    @property
    def is_restored(self) -> bool:
        """Whether the terminal is as it was before the program."""
        screen = self.screen
        is_shell = not screen.is_other and screen.has_cursor
        return is_shell and self.modes == self._modes_before

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def resize(self, columns: int, lines: int, *, announce: bool = True) -> None:
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, size)
        if announce:
            # It is not the controlling terminal, so the kernel does not.
            self.process.send_signal(signal.SIGWINCH)

    def until(self, is_so: Callable[[str], object]) -> str:
        """Read what is written until the text on the screen is as wanted."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so(self.screen.text):
            assert self.process.poll() is None, f"it has ended:\n{self.screen.text}"
            assert time.monotonic() < deadline, f"in vain:\n{self.screen.text}"
            self._read(0.1)
        return self.screen.text

    def until_shown(self, *texts: str) -> str:
        return self.until(lambda shown: all(text in shown for text in texts))

    def until_stopped(self) -> None:
        """Wait until it is suspended."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        options = os.WUNTRACED | os.WNOHANG
        while True:
            self._read(0.05)
            pid, status = os.waitpid(self.process.pid, options)
            if pid:
                assert os.WIFSTOPPED(status)
                break
            assert time.monotonic() < deadline
        self._read_rest()

    def wait(self) -> int:
        """Return its exit code once it has ended."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"in vain:\n{self.screen.text}"
            # What nobody reads would keep it from ending.
            self._read(0.05)
        self._read_rest()
        code = self.process.returncode
        assert code is not None
        return code

    def _read_rest(self) -> None:
        while self._read(0):
            pass

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], seconds)
        if ready:
            data = os.read(self._ours, 65_536)
            self.screen.write(data.decode(errors="replace"))
        return bool(ready)
