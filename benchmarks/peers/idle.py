"""The cost of an idle worker of Kue."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.peers.catalogue import KUE
from benchmarks.peers.processes import Workspace, produce, workers

if TYPE_CHECKING:
    from benchmarks.peers.cores import CorePlan
    from benchmarks.peers.server import Server

#: How long it settles after its last job, and is then observed, in seconds.
SETTLING_SECONDS = 3.0
WATCHED_SECONDS = 10.0
#: Pings that show that it is running; all must arrive.
PINGS = 3


@dataclass(frozen=True)
class Idle:
    """The cost of a worker without work."""

    #: Of one core.
    cpu_percent: float
    #: Calls to Redis per second.
    calls: float
    #: Commands that Redis runs for it per second, including those inside scripts.
    commands: float


def measure(server: Server, plan: CorePlan) -> Idle:
    """Observe a worker that has run a few jobs and waits for more."""
    server.empty()
    with (
        TemporaryDirectory() as folder,
        workers(
            KUE,
            workspace := Workspace(server.port, Path(folder), 1),
            plan.worker,
            "ping",
        ) as running,
    ):
        produce(KUE, workspace, plan.pinger, "ping", PINGS, 10)
        return _watch(server, running.pids[0])


def _watch(server: Server, pid: int) -> Idle:
    time.sleep(SETTLING_SECONDS)
    server.reset_commands()
    before, began = _cpu_seconds(pid), time.monotonic()
    time.sleep(WATCHED_SECONDS)
    took, seconds = _cpu_seconds(pid) - before, time.monotonic() - began
    # Without our own call.
    calls, commands = server.reads() - 1, server.commands()
    return Idle(took / seconds * 100, calls / seconds, commands / seconds)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
