"""What the system knows of a process."""

from __future__ import annotations

from pathlib import Path

#: States of a process that runs no instruction until someone lets it.
FROZEN = frozenset("Tt")


def is_frozen(pid: int) -> bool:
    """
    Whether the process was stopped, by SIGSTOP or a debugger.

    Where there is no /proc nobody can tell, and it counts as running.
    """
    return state_of(pid) in FROZEN


def state_of(pid: int) -> str | None:
    """Return the letter of its state, or None when there is no telling."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The name of the program, in parentheses, may have spaces and parentheses.
    return stat.rpartition(b")")[2].split()[0].decode()
