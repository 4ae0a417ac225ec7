"""Processes of a run: started on a leash, and found by their session."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOME = Path(__file__).parents[1]
LEASH = Path(__file__).with_name("leash.py")
PROC = Path("/proc")
#: Positions of fields in /proc/PID/stat, counted after the name in parentheses.
_STATE, _PARENT, _SESSION = 0, 1, 3


class Household:
    """All processes of a run, including those that they start."""

    def __init__(self) -> None:
        self._sessions: set[int] = set()

    def start(
        self, command: Sequence[str], environ: Mapping[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        """Start *command* on a leash; its output is appended to *log*."""
        with log.open("ab") as output:
            process = subprocess.Popen(
                leashed(command),
                cwd=HOME,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._sessions.add(process.pid)
        return process

    def survivors(self) -> list[int]:
        """Return the processes that still run, even if they lost their parent."""
        return [
            pid for pid, stat in _running().items() if stat[_SESSION] in self._sessions
        ]

    def end(self) -> None:
        for pid in self.survivors():
            send(pid, signal.SIGKILL)


def leashed(command: Sequence[str]) -> list[str]:
    """Return *command* so that it dies with this process, which is to start it."""
    # Without site packages it starts quickly.
    return [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *command]


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, which may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def children_of(pid: int) -> list[int]:
    """Return the processes that *pid* started and that still run."""
    return [child for child, stat in _running().items() if stat[_PARENT] == pid]


def descendants_of(pid: int) -> list[int]:
    """Return the children of *pid*, their children, and so on."""
    children = children_of(pid)
    return children + [more for child in children for more in descendants_of(child)]


def is_running(pid: int) -> bool:
    return pid in _running()


def handles(pid: int, number: signal.Signals) -> bool:
    """Return whether a process has installed a handler for a signal."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for line in (PROC / str(pid) / "status").read_text().splitlines():
            name, _, mask = line.partition(":")
            if name == "SigCgt":
                return bool(int(mask, 16) >> (number - 1) & 1)
    return False


def _running() -> dict[int, tuple[int, ...]]:
    """Return the fields from /proc of each process that is not a zombie."""
    found: dict[int, tuple[int, ...]] = {}
    for path in PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name may contain anything.
            state, *fields = path.read_text().rpartition(")")[2].split()[:4]
            if state != "Z":
                found[int(path.parent.name)] = (0, *map(int, fields))
    return found
