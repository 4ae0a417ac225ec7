"""What a worker of Kue costs while there is nothing to do."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.peers.catalogue import KUE
from benchmarks.peers.processes import Place, produce, workers

if TYPE_CHECKING:
    from benchmarks.peers.cores import Seats
    from benchmarks.peers.server import Server

#: How long it is left alone after its last job, and then watched, in seconds.
SETTLING_SECONDS = 3.0
WATCHED_SECONDS = 10.0
#: Pings that show that it is up; each must have arrived.
PINGS = 3


@dataclass(frozen=True)
class Idle:
    """A worker without work."""

    #: Of one core.
    cpu_percent: float
    #: What it sends to Redis in a second.
    calls: float
    #: Commands that Redis runs for it in a second, those inside scripts too.
    commands: float


def measure(server: Server, seats: Seats) -> Idle:
    """Watch a worker that has run a few jobs and waits for more."""
    server.empty()
    with (
        TemporaryDirectory() as folder,
        workers(
            KUE, place := Place(server.port, Path(folder), 1), seats.worker, "ping"
        ) as running,
    ):
        produce(KUE, place, seats.pinger, "ping", PINGS, 10)
        return _watch(server, running.pids[0])


def _watch(server: Server, pid: int) -> Idle:
    time.sleep(SETTLING_SECONDS)
    server.reset_commands()
    before, began = _cpu_seconds(pid), time.monotonic()
    time.sleep(WATCHED_SECONDS)
    took, seconds = _cpu_seconds(pid) - before, time.monotonic() - began
    # The question itself is one.
    calls, commands = server.reads() - 1, server.commands()
    return Idle(took / seconds * 100, calls / seconds, commands / seconds)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
