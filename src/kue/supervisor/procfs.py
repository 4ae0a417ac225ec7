"""Process states from /proc."""

from __future__ import annotations

from pathlib import Path

#: States of a process that was stopped, until it is continued.
FROZEN = frozenset("Tt")


def is_frozen(pid: int) -> bool:
    """
    Return whether the process was stopped, by SIGSTOP or a debugger.

    Without /proc it counts as running.
    """
    return state_of(pid) in FROZEN


def state_of(pid: int) -> str | None:
    """Return the letter of its state, or None if it is not known."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name of the program, in parentheses, may have spaces and parentheses.
    return stat.rpartition(b")")[2].split()[0].decode()
