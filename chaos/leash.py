"""
``python leash.py COMMAND …``: become COMMAND, in a session of its own, on a leash.

Whoever started it may be killed at any moment; the command then dies, too.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

#: prctl(2): the signal that we get when our parent ends; exec keeps it.
PR_SET_PDEATHSIG = 1


def main() -> None:
    # Ctrl-C in a terminal is for the one that tidies up, not for everybody.
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
