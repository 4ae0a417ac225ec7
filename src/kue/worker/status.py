"""Status of a worker, as sent with heartbeats and shown by `workers`."""

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
    """Collects the status of this worker and process."""

    def __init__(self, lanes: Sequence[Lane], store_retry: StoreRetry) -> None:
        self._lanes = lanes
        self._store_retry = store_retry
        self._started_at = time.time_ns() // 1_000_000
        self.loop_monitor: WorkerLoopMonitor | None = None

    def __call__(self) -> dict[str, Any]:
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": version(),
            "started_at": self._started_at,
            "slots": {lane.type: lane.processor.slots for lane in self._lanes},
            "running": sum(len(lane.runs) for lane in self._lanes),
            "done": sum(lane.done for lane in self._lanes),
            "memory": memory(),
            "trouble": self._store_retry.trouble,
            **self._health(),
        }

    def _health(self) -> dict[str, Any]:
        if self.loop_monitor is None:
            return {}
        return {
            "lag_ms": self.loop_monitor.lag_ms,
            "blocked": self.loop_monitor.count,
            "blocked_at": self.loop_monitor.where,
        }


def memory() -> int:
    """Return how many bytes of memory this process holds."""
    try:
        pages = int(_STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        # The peak; better than nothing.
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return pages * resource.getpagesize()
