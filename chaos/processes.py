"""Processes of a run: started on a leash, and found again when something goes wrong."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import signal
    from collections.abc import Mapping, Sequence

HOME = Path(__file__).parents[1]
LEASH = Path(__file__).with_name("leash.py")
PROC = Path("/proc")


def leashed(command: Sequence[str]) -> list[str]:
    """Return *command* so that it dies with the process that starts it."""
    # Without site packages it is there at once.
    return [sys.executable, "-I", "-S", str(LEASH), *command]


def start(
    command: Sequence[str], environ: Mapping[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start *command* on a leash; what it says goes to the end of *log*."""
    with log.open("ab") as output:
        return subprocess.Popen(
            leashed(command),
            cwd=HOME,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone by now."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def children_of(pid: int) -> list[int]:
    """Return the processes that *pid* started and that still run."""
    children: list[int] = []
    for tasks in PROC.glob(f"{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            children += map(int, tasks.read_text().split())
    return children


def survivors(mark: str) -> list[int]:
    """Return the processes, but ourselves, whose environment contains *mark*."""
    found: list[int] = []
    for path in PROC.glob("[0-9]*/environ"):
        pid = int(path.parent.name)
        with contextlib.suppress(OSError):
            if pid != os.getpid() and mark.encode() in path.read_bytes():
                found.append(pid)
    return found
