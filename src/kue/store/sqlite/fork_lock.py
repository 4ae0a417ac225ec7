"""
Forking: a process forks only while none of Kue's threads is inside SQLite.

SQLite has its own locks for the whole process.  A child that was forked while another
thread held one would inherit it locked forever, and hang at its first statement.
"""

from __future__ import annotations

import os
import threading

#: One per thread that uses SQLite, held while it does.
_inside: set[threading.Lock] = set()
#: Those held by a fork in progress.
_held: list[threading.Lock] = []


def enter() -> threading.Lock:
    """Return a lock for one thread to hold inside SQLite; pass it to `leave`."""
    lock = threading.Lock()
    _inside.add(lock)
    return lock


def leave(lock: threading.Lock) -> None:
    """Forget the lock of a thread that is done with SQLite."""
    _inside.discard(lock)


def _before_fork() -> None:
    for lock in tuple(_inside):
        lock.acquire()
        _held.append(lock)


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().release()


def _after_fork_in_child() -> None:
    # They belong to threads of the parent.
    _inside.clear()
    _held.clear()


# Windows has no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
