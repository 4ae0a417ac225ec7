"""
A process forks only while none of our threads is inside SQLite.

SQLite has locks of its own for the whole process.  A child that was forked while
another thread held one would inherit it locked for ever, and hang at its first
statement.
"""

from __future__ import annotations

import os
import threading

#: One for each thread that uses SQLite, held while it does.
_inside: set[threading.Lock] = set()
#: Those held by a fork that is going on.
_held: list[threading.Lock] = []


def enter() -> threading.Lock:
    """Return a lock to be held inside SQLite, for one thread; give it to `leave`."""
    lock = threading.Lock()
    _inside.add(lock)
    return lock


def leave(lock: threading.Lock) -> None:
    """Forget the lock of a thread that is done with SQLite."""
    _inside.discard(lock)


def _hold_still() -> None:
    for lock in tuple(_inside):
        lock.acquire()
        _held.append(lock)


def _go_on() -> None:
    while _held:
        _held.pop().release()


def _begin_as_child() -> None:
    # The threads they belong to are the parent's.
    _inside.clear()
    _held.clear()


# Windows knows no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_hold_still, after_in_parent=_go_on, after_in_child=_begin_as_child
    )
