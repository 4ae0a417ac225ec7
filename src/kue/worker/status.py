"""Status of a worker, sent with heartbeats, and its monitor for a blocked loop."""

from __future__ import annotations

import logging
import os
import resource
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kue.aio.loop_monitor import BlockedLoop, LoopMonitor, frame_of
from kue.model.version import version
from kue.worker import executor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kue.worker.active_run import ActiveRun
    from kue.worker.lane import Processor
    from kue.worker.shared_context import SharedContext

logger = logging.getLogger(__name__)
_STATM = Path("/proc/self/statm")


class WorkerLoopMonitor(LoopMonitor):
    """Logs which code blocks the worker's event loop, and remembers the last."""

    def __init__(self, limit: float) -> None:
        super().__init__(self._log, limit=limit)
        self.where = ""

    def _log(self, blockage: BlockedLoop) -> None:
        self.where = blockage.where
        frame, depth = frame_of(blockage.frame, (executor.execute.__code__,))
        run: ActiveRun | None = frame and frame.f_locals["run"]
        by_job = "" if run is None else f" by job {run.id} of type {run.type}"
        logger.warning(
            "the event loop has been blocked for %.1f s%s at %s; "
            "use await, a plain function or execution='process'\n%s",
            blockage.seconds,
            by_job,
            blockage.where,
            "".join(traceback.format_stack(blockage.frame, depth)).rstrip(),
            extra={"job_id": run.id} if run else None,
        )


class StatusCollector:
    """Collects the status of this worker and process."""

    def __init__(
        self,
        context: SharedContext,
        processors: Sequence[Processor],
        shared_slots: int | None,
    ) -> None:
        self._context = context
        self._shared_slots = shared_slots
        #: How many processes the supervisor has (now, least, most), if that varies.
        self.processes: dict[str, int] | None = None
        self._slots = {one.type: one.slots for one in processors}
        self._started_at = time.time_ns() // 1_000_000
        self.loop_monitor: WorkerLoopMonitor | None = None

    def add(self, processor: Processor) -> None:
        """Report one more type that it handles."""
        self._slots = {**self._slots, processor.type: processor.slots}

    def __call__(self) -> dict[str, Any]:
        lanes = self._context.lanes
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": version(),
            "started_at": self._started_at,
            "slots": self._slots,
            "running": sum(len(lane.runs) for lane in lanes),
            "done": sum(lane.done for lane in lanes),
            "memory": memory(),
            "trouble": self._context.store_retry.trouble,
            **self._scale(),
            **self._health(),
        }

    def _scale(self) -> dict[str, Any]:
        facts = {"concurrency": self._shared_slots, "processes": self.processes}
        return {name: fact for name, fact in facts.items() if fact is not None}

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
