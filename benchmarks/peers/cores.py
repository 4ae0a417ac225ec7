"""Who runs on which core: a benchmark that the scheduler shuffles measures it, too."""

from __future__ import annotations

import os
from dataclasses import dataclass

Cores = frozenset[int]


@dataclass(frozen=True)
class Seats:
    """The cores of the server, of whoever adds jobs, and of workers."""

    server: Cores
    producer: Cores
    worker: Cores
    #: Shared by two workers.
    workers: Cores
    #: Of whoever adds jobs while a worker runs them.
    pinger: Cores


def seats(cores: list[int]) -> Seats:
    """
    Share *cores* out.

    One core is the server's.  A lone worker or producer has the next.  Two workers have
    one each as long as there are enough; with two cores in all they share both, and
    with them the server's, which is as it is on such a machine.
    """
    first = frozenset(cores[:1])
    second = frozenset(cores[1:2]) or first
    third = frozenset(cores[2:3])
    return Seats(
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
    """Keep a process on *cores*, where the system has a way; 0 is this one."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(pid, cores)
