"""
Stopping a process with SIGSTOP, at a moment when it holds up nobody else.

A process that is stopped in the middle of a write to a SQLite file keeps the lock of
that file: nobody could write until it goes on, and a test that waits for what others do
in the meantime would wait forever.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from kue.supervisor.child_process import FROZEN
from tests.support.servers import wait_until

#: Longer than writes of processes that are not stopped take, as a rule.
_LOCKED_SECONDS = 0.3
#: A thawed process gets on with the write it was stopped in.
_PAUSE_SECONDS = 0.01
_SQLITE = "sqlite:///"


def freeze(pid: int, url: str) -> None:
    """Stop a process that uses the store at *url* while it holds no lock on that."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: _stands_still(pid), f"process {pid} stands still")
        if _takes_writes(url):
            return
        os.kill(pid, signal.SIGCONT)
        time.sleep(_PAUSE_SECONDS)


def _stands_still(pid: int) -> bool:
    """Whether no thread of it runs; the last ones stop a moment after the signal."""
    tasks = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(_state(task) in FROZEN for task in tasks)


def _state(stat: Path) -> str:
    try:
        # The name of the program, in parentheses, may have spaces and parentheses.
        return stat.read_bytes().rpartition(b")")[2].split()[0].decode()
    except OSError:
        return ""  # a thread that was about to end


def _takes_writes(url: str) -> bool:
    if not url.startswith(_SQLITE):
        return True
    path = url.removeprefix(_SQLITE)
    with closing(sqlite3.connect(path, timeout=_LOCKED_SECONDS)) as db:
        try:
            db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
    return True
