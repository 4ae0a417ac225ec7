"""
A tally of runs, kept without Redis, so as not to affect the figures of a queue.

Each worker process keeps a file that the benchmark can read at any time: how many jobs
ran, when the first started and the last ended, then a byte for each job, which counts
its runs.
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from pathlib import Path

#: Runs, start of the first and end of the last, in ns of the monotonic clock.
HEADER = struct.Struct("<QQQ")
NANOSECONDS = struct.Struct("<Q")
NAP_SECONDS = 0.005
FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
JOBS = int(os.environ.get("BENCH_JOBS", "0"))

now = time.monotonic_ns


class Tally:
    """The runs of this process; threads may share it."""

    def __init__(self, path: Path, jobs: int) -> None:
        self._lock = threading.Lock()
        self._runs = 0
        self._first = 0
        with path.open("w+b") as file:
            file.truncate(HEADER.size + jobs)
            self._map = mmap.mmap(file.fileno(), HEADER.size + jobs)

    def add(self, number: int, began: int, ended: int) -> None:
        """Count a run of the job with this *number*."""
        with self._lock:
            self._runs += 1
            self._first = self._first or began
            HEADER.pack_into(self._map, 0, self._runs, self._first, ended)
            at = HEADER.size + number
            self._map[at] = min(255, self._map[at] + 1)


_tally: Tally | None = None
_making = threading.Lock()


def _the_tally() -> Tally:
    """Return the tally of this process; no process runs a job before it forks."""
    global _tally
    if _tally is None:
        with _making:
            _tally = _tally or Tally(FOLDER / f"ran.{os.getpid()}", JOBS)
    return _tally


def ran(number: int) -> None:
    """Record that a no-op job ran just now."""
    at = now()
    _the_tally().add(number, at, at)


def napped(number: int, began: int) -> None:
    """Record that a job which *began* to sleep has ended."""
    _the_tally().add(number, began, now())


def arrived(sent: int) -> None:
    """Record how long after being *sent* a ping arrived."""
    waited = now() - sent
    with (FOLDER / "pings").open("ab") as file:
        file.write(NANOSECONDS.pack(waited))


def arrivals() -> int:
    """Return how many pings arrived."""
    try:
        return (FOLDER / "pings").stat().st_size // NANOSECONDS.size
    except FileNotFoundError:
        return 0
