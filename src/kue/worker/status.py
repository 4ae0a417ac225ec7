"""What a worker says of itself to whoever asks the store for workers."""

from __future__ import annotations

import os
import resource
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kue.model.version import version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.aio.retry import StoreRetry
    from kue.worker.lane import Lane
    from kue.worker.loop_monitor import WorkerLoopMonitor

_STATM = Path("/proc/self/statm")


class StatusCollector:
    """Collects the facts."""

    def __init__(self, loops: Sequence[Lane], outage: StoreRetry) -> None:
        self._loops = loops
        self._outage = outage
        self._started_at = time.time_ns() // 1_000_000
        self.lookout: WorkerLoopMonitor | None = None

    def __call__(self) -> dict[str, Any]:
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": version(),
            "started_at": self._started_at,
            "slots": {loop.type: loop.processor.slots for loop in self._loops},
            "running": sum(len(loop.runs) for loop in self._loops),
            "done": sum(loop.done for loop in self._loops),
            "memory": memory(),
            "trouble": self._outage.trouble,
            **self._health(),
        }

    def _health(self) -> dict[str, Any]:
        if self.lookout is None:
            return {}
        return {
            "lag_ms": self.lookout.lag_ms,
            "blocked": self.lookout.count,
            "blocked_at": self.lookout.where,
        }


def memory() -> int:
    """Return how many bytes of memory this process holds."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        # The most it ever held; better than nothing.
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()
