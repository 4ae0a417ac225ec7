"""``kue worker`` on a terminal: Ctrl-C, Ctrl-Z, and a window that is closed."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kue.supervisor import child_process
from tests.faults.supervised import SHIFT, Shift, children_of, is_there, patiently

#: Takes its standard input as the terminal that controls it, as a shell's child has it.
_PROGRAM = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from kue.cli import main
main()
"""
CTRL_C, CTRL_Z = b"\x03", b"\x1a"


class Terminal:
    """A terminal with ``kue worker`` in its foreground."""

    def __init__(self, shift: Shift) -> None:
        self._screen, theirs = pty.openpty()
        os.set_blocking(self._screen, False)
        self._shown = ""
        self.worker = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, "worker", f"{SHIFT}:q"],
            cwd=shift.folder,
            env={**os.environ, **shift.environ},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._children: list[int] = []

    async def up(self) -> list[int]:
        """Return the pids of all processes, once jobs can be run."""
        await patiently(lambda: self.shows("works on"))
        self._children = children_of(self.worker.pid)
        return [self.worker.pid, *self._children]

    def shows(self, text: str) -> bool:
        with contextlib.suppress(OSError):
            self._shown += os.read(self._screen, 65536).decode()
        return text in self._shown

    def press(self, key: bytes) -> None:
        os.write(self._screen, key)

    def close(self) -> None:
        """Do what closing the window does; twice is fine."""
        if self._screen >= 0:
            os.close(self._screen)
            self._screen = -1

    def end(self) -> None:
        self.close()
        self.worker.kill()
        self.worker.wait()
        for pid in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


@pytest.fixture
def terminal(lone: Shift) -> Iterator[Terminal]:
    terminal = Terminal(lone)
    yield terminal
    terminal.end()


async def test_ctrl_c_stops_in_order(terminal: Terminal) -> None:
    await terminal.up()

    terminal.press(CTRL_C)
    await patiently(lambda: terminal.worker.poll() is not None)

    assert terminal.worker.returncode == 0
    assert terminal.shows("stopping: jobs may end within 30 s")


async def test_ctrl_z_suspends_all_processes_and_all_go_on(terminal: Terminal) -> None:
    pids = await terminal.up()

    terminal.press(CTRL_Z)
    await patiently(lambda: all(map(child_process.is_frozen, pids)))
    os.kill(pids[0], signal.SIGCONT)
    await patiently(lambda: not any(map(child_process.is_frozen, pids)))
    terminal.press(CTRL_C)
    await patiently(lambda: terminal.worker.poll() is not None)

    assert terminal.worker.returncode == 0


async def test_a_closed_terminal_stops_in_order(terminal: Terminal) -> None:
    """It sends the same signal as a reload, and nobody would be there to see that."""
    pids = await terminal.up()

    terminal.close()
    await patiently(lambda: terminal.worker.poll() is not None)

    assert terminal.worker.returncode == 0
    assert not any(map(is_there, pids))
