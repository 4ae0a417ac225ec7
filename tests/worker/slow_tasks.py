"""A module that takes its time to be imported, in a child process only."""

from __future__ import annotations

import sys
import time
from pathlib import Path

if "kue.worker.pools.child" in sys.orig_argv:
    time.sleep(1)


def touch(path: str) -> None:
    Path(path).touch()
