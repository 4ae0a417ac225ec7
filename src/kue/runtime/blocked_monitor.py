"""The blocked-thread monitor of a runtime: reports what blocks a loop or a worker."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from kue.aio import loop_thread
from kue.aio.loop_monitor import BlockedLoop, LoopProbe, blockage, frame_of, oversleep
from kue.runtime.context import Context
from kue.runtime.worker_context import WorkerContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kue.runtime.event_loops import LoopHost
    from kue.runtime.thread_pool import ThreadPool

logger = logging.getLogger(__name__)

_ENTRY_POINTS = {
    Context._invoke.__code__,
    Context._finish.__code__,
    Context._complete.__code__,
    WorkerContext._invoke.__code__,
    WorkerContext._invoke_call.__code__,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorLimits:
    """How often the monitor checks and what it considers blocked, in seconds."""

    interval: float = 1.0
    loop: float = 2.0
    worker: float = 60.0
    #: From when on the stack is logged.
    stack: float = 5.0

    def __post_init__(self) -> None:
        for name in ("interval", "loop", "worker"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0 seconds")


class BlockedMonitor:
    """Checks loops and pools from its own thread, and warns at each check."""

    def __init__(
        self,
        limits: MonitorLimits,
        hosts: Iterable[LoopHost],
        pools: Callable[[], list[ThreadPool]],
    ) -> None:
        self._limits = limits
        self._pools = pools
        idle = (loop_thread.__file__,)
        probe = partial(LoopProbe, limit=limits.loop, again=True, idle=idle)
        self._probes = [(host, probe(host.loop, host.thread)) for host in hosts]
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="kue blocked-thread monitor", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.is_set():
            overslept = oversleep(self._stopped, self._limits.interval)
            for host, probe in self._probes:
                # Before it is probed: that would let the loop go on.
                if (found := probe.check(overslept)) is not None:
                    self._warn(host.name, found, self._limits.loop)
            for pool in self._pools():
                self._check(pool)
            alive = [probe.ping() for _, probe in self._probes]
            if not any(alive):
                # All loops were closed from outside.
                return

    def _check(self, pool: ThreadPool) -> None:
        for busy in pool.busy():
            held = time.monotonic() - busy.since
            frame = sys._current_frames().get(busy.thread)
            # If it runs another call by now, the frame belongs to that.
            if held > pool.limit and frame is not None and busy in pool.busy():
                self._warn(busy.name, blockage(held, frame), pool.limit)

    def _warn(self, thread: str, found: BlockedLoop, limit: float) -> None:
        frame, depth = frame_of(found.frame, _ENTRY_POINTS)
        context: Context | None = frame and frame.f_locals["self"]
        owner = "" if context is None else f" by {context.deployment or 'a handler'}"
        stack = ""
        if found.seconds >= self._limits.stack:
            stack = "\n" + "".join(traceback.format_stack(found.frame, depth)).rstrip()
        logger.warning(
            "Thread %s has been blocked for %d ms, time limit is %d ms%s at %s%s",
            thread,
            found.seconds * 1000,
            limit * 1000,
            owner,
            found.where,
            stack,
        )
