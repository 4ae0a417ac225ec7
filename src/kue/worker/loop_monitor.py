"""Blocked event loop of a worker: which job blocks it, and where."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, cast

from kue.aio.loop_monitor import BlockedLoop, LoopMonitor
from kue.worker import executor

if TYPE_CHECKING:
    from types import FrameType

    from kue.worker.run import ActiveRun

logger = logging.getLogger(__name__)


class WorkerLoopMonitor:
    """Logs which code blocks the worker's event loop, and remembers the last."""

    def __init__(self, limit: float) -> None:
        self.where = ""
        self._monitor = LoopMonitor(self._report, limit=limit)

    @property
    def count(self) -> int:
        return self._monitor.count

    @property
    def lag_ms(self) -> int:
        return self._monitor.lag_ms

    def start(self) -> None:
        self._monitor.start()

    def stop(self) -> None:
        self._monitor.stop()

    def _report(self, blockage: BlockedLoop) -> None:
        self.where = blockage.where
        run, depth = run_in(blockage.frame)
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


def run_in(innermost: FrameType) -> tuple[ActiveRun | None, int | None]:
    """Return the run whose handler *innermost* is in, and its depth; None if none."""
    frame: FrameType | None = innermost
    depth = 0
    while frame is not None:
        if frame.f_code is executor.execute.__code__:
            return cast("ActiveRun", frame.f_locals["run"]), depth
        frame = frame.f_back
        depth += 1
    return None, None
