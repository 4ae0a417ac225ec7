"""
Processes that die with their run, even if that is killed.

``python leash.py PARENT COMMAND …`` becomes COMMAND, in its own session, and dies with
its parent, the process PARENT.  Processes that COMMAND starts call `follow`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

#: prctl(2): the signal on the parent's death; exec keeps the setting.
PR_SET_PDEATHSIG = 1
LOOK_SECONDS = 0.5


def main() -> None:
    # Ctrl-C in a terminal is for the process that cleans up, not for all.
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    _, parent, *command = sys.argv
    # It may have been killed before, and then nothing is announced.
    if os.getppid() != int(parent):
        sys.exit(1)
    os.execvp(command[0], command)


def follow(pid: int) -> None:
    """End this process soon after process *pid*, which is not its parent."""
    threading.Thread(target=_follow, args=[pid], daemon=True).start()


def _follow(pid: int) -> None:
    try:
        while True:
            os.kill(pid, 0)
            # The end of a process that is not a child is not announced.
            time.sleep(LOOK_SECONDS)
    except ProcessLookupError:
        os._exit(1)


if __name__ == "__main__":
    main()
