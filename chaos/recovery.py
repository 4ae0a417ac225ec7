"""Recovery times: how soon the jobs of dead workers ran again."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from chaos.facts import FOREVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.history import History
    from kue.model.job import Job, Run

#: Clients reconnect within this time after the store is back.
RECONNECT_MS = 2_000
#: Workers that must be running for a recovery to count.
MIN_WORKERS = 2


def times(history: History) -> list[float]:
    """
    Return the seconds from the death of each run's process to the next run's start.

    The backoff of a job that lost several workers is not counted.  Left out are runs
    whose type was paused, whose store was unavailable, or for which there were too few
    workers in the meantime: the guarantee assumes running workers.
    """
    deaths = _deaths(history)
    found: list[float] = []
    for job in history.jobs:
        for lost, ended, delay, began in _lost_runs(job):
            died = deaths.get((job.id, lost.fence), FOREVER)
            if died <= ended and _is_fair(history, job.type, died, began):
                found.append((began - died - delay) / 1000)
    return sorted(found)


def _deaths(history: History) -> dict[tuple[int, int], int]:
    """Return when the process of each run died, by job and fence."""
    died = {one.pid: one.at for one in history.died}
    return {
        (run.id, run.fence): died[pid]
        for run in history.started
        # The parent of a child process that runs a job is the worker.
        for pid in (run.parent, run.pid)
        if pid in died
    }


def _lost_runs(job: Job) -> Iterator[tuple[Run, int, int, int]]:
    """Yield each run whose worker was lost, its end, the pause, and the next start."""
    for line, following in pairwise(job.history):
        lost, again = line.run, following.run
        if line.outcome == "stalled" and lost is not None and again is not None:
            yield lost, line.at, line.delay, again.started_at


def _is_fair(history: History, type: str, since: int, until: int) -> bool:
    was_away = any(
        away.since <= until and away.until + RECONNECT_MS >= since
        for away in history.away
    )
    was_paused = any(
        order.type == type and since <= order.ended and order.at <= until
        for order in history.given
    )
    workers = _running_workers(history, since, until)
    return not (was_away or was_paused) and len(workers) >= MIN_WORKERS


def _running_workers(history: History, since: int, until: int) -> set[int]:
    """Return the workers that were running all the time."""
    came = {one.pid for one in history.came if one.at <= since}
    died = {one.pid for one in history.died if one.at <= until}
    idled = {
        one.pid
        for one in history.idled
        if one.since <= until and one.until + RECONNECT_MS >= since
    }
    return came - died - idled


def middle(values: list[float]) -> float | None:
    """Return the median of sorted *values*; None if there are none."""
    return values[len(values) // 2] if values else None
