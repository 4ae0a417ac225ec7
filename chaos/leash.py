"""
Processes that die with the run they are for, even if that is killed.

``python leash.py COMMAND …`` becomes COMMAND, in a session of its own, and dies with
whoever started it.  What COMMAND starts in turn calls `follow`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

#: prctl(2): the signal that we get when our parent ends; exec keeps it.
PR_SET_PDEATHSIG = 1
LOOK_SECONDS = 0.5


def main() -> None:
    # Ctrl-C in a terminal is for the one that tidies up, not for everybody.
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.execvp(sys.argv[1], sys.argv[1:])


def follow(pid: int) -> None:
    """End this process soon after process *pid*, which is not its parent."""
    threading.Thread(target=_follow, args=[pid], daemon=True).start()


def _follow(pid: int) -> None:
    try:
        while True:
            os.kill(pid, 0)
            # The end of a stranger is not announced.
            time.sleep(LOOK_SECONDS)
    except ProcessLookupError:
        os._exit(1)


if __name__ == "__main__":
    main()
