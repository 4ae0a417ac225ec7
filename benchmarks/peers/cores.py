"""CPU pinning: which process runs on which core, so as not to measure the scheduler."""

from __future__ import annotations

import os
from dataclasses import dataclass

Cores = frozenset[int]


@dataclass(frozen=True)
class CorePlan:
    """The cores of the server, the producer and the workers."""

    server: Cores
    producer: Cores
    worker: Cores
    #: Shared by two workers.
    workers: Cores
    #: For the producer that adds jobs while a worker runs them.
    pinger: Cores


def plan_cores(cores: list[int]) -> CorePlan:
    """
    Assign *cores*.

    The server has one core.  A single worker or producer has the next.  Two workers
    have one each if there are enough; with two cores in all they share both, including
    the server's, as they would on such a machine.
    """
    first = frozenset(cores[:1])
    second = frozenset(cores[1:2]) or first
    third = frozenset(cores[2:3])
    return CorePlan(
        server=first,
        producer=second,
        worker=second,
        workers=second | (third or first),
        pinger=third or first,
    )


def here() -> list[int]:
    """Return the cores that this process may use."""
    if not hasattr(os, "sched_getaffinity"):
        return list(range(os.cpu_count() or 1))
    return sorted(os.sched_getaffinity(0))


def pin(pid: int, cores: Cores) -> None:
    """Pin a process to *cores*, where the system supports it; 0 is this process."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(pid, cores)
