"""Warnings for operators: what keeps jobs from running, or from being added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from kue.http.v1.rates import MINUTE_MS, drain_ms, sums_by_type
from kue.model.alerts import AlertKind
from kue.model.job import State
from kue.store.values import WhenFull
from kue.worker.unhandled_types import takes, unhandled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kue.client.stuck_jobs import FailedParent
    from kue.http.v1.rates import Recent
    from kue.http.v1.stats import PauseView
    from kue.model.circuit import Circuit
    from kue.store.values import Limits, Stat, WorkerStatus

#: A backlog grows if at least this many more jobs, and this share, came than ended.
MIN_GROWTH = 10
GROWTH_SHARE = 0.1


class Concern(msgspec.Struct, frozen=True):
    """A warning for operators."""

    code: Literal[
        "alert",
        "lost-worker",
        "circuit",
        "paused",
        "no-worker",
        "full",
        "backlog",
        "failed-parent",
    ]
    #: What is wrong, in a sentence.
    message: str
    #: The type it is about, if it is about one.
    queue: str | None = None
    #: The worker it is about, if it is about one.
    worker: str | None = None
    #: The circuit it is about, if it is about one.
    circuit: str | None = None
    #: Which threshold of the queue is reached, if it is an alert.
    alert: AlertKind | None = None
    #: The failed job that others wait for, if it is about one.
    job: int | None = None


def warnings_of(
    by_type: Mapping[str, Mapping[State, int]],
    workers: Sequence[WorkerStatus],
    pauses: Iterable[PauseView],
    stats: Recent,
    limits: Mapping[str, Limits],
) -> list[Concern]:
    """Return what keeps jobs from running, or from being added."""
    return [
        *_lost_worker_warnings(workers),
        *_pause_warnings(pauses),
        *(
            Concern("no-worker", str(found), found.type)
            for found in unhandled(by_type, workers)
        ),
        *_full_warnings(by_type, limits),
        *_backlog_warnings(by_type, workers, stats),
    ]


#: Warnings that an alert of the same queue replaces.
_SAME_CAUSE = {"no-worker": ("no_worker",), "backlog": ("backlog", "oldest")}


def unrepeated(
    concerns: Iterable[Concern], alerts: set[tuple[str, str]], silenced: Iterable[str]
) -> list[Concern]:
    """Return warnings without those of silenced types, and one for each cause."""
    hidden = set(silenced)
    return [
        one
        for one in concerns
        if one.queue not in hidden
        and not any(
            (one.queue, kind) in alerts for kind in _SAME_CAUSE.get(one.code, ())
        )
    ]


def _lost_worker_warnings(workers: Iterable[WorkerStatus]) -> Iterator[Concern]:
    # One without jobs is removed by the next maintenance; no job waits for that.
    for worker in (one for one in workers if one.lost and one.active):
        yield Concern(
            "lost-worker",
            f"worker {worker.name!r} is lost while running {_jobs(worker.active)}; "
            "a live worker requeues what it ran",
            worker=worker.name,
        )


def circuit_warnings(circuits: Iterable[Circuit]) -> Iterator[Concern]:
    for one in circuits:
        if one.state != "closed":
            message = f"circuit {one.name!r} {one.summary}"
            yield Concern("circuit", message, circuit=one.name)


def failed_parent_warnings(parents: Iterable[FailedParent]) -> Iterator[Concern]:
    for one in parents:
        message = f"{one}; retry it to go on"
        yield Concern("failed-parent", message, job=one.id)


def _pause_warnings(pauses: Iterable[PauseView]) -> Iterator[Concern]:
    for pause in pauses:
        what = "everything" if pause.type is None else f"queue {pause.type!r}"
        if pause.worker is not None:
            what = f"worker {pause.worker!r}"
        by = f" by {pause.by}" if pause.by else ""
        why = f": {pause.reason}" if pause.reason else ""
        yield Concern(
            "paused", f"{what} is paused{by}{why}", pause.type, worker=pause.worker
        )


#: What happens to jobs that are added to a full queue.
_WHEN_FULL = {
    WhenFull.REFUSE: "more are refused",
    WhenFull.WAIT: "programs that add more wait for room",
    WhenFull.DROP_OLDEST: "each one more cancels the oldest of the lowest priority",
}


def _full_warnings(
    by_type: Mapping[str, Mapping[State, int]], limits: Mapping[str, Limits]
) -> Iterator[Concern]:
    for type, of_type in sorted(limits.items()):
        waiting = by_type.get(type, {}).get(State.WAITING, 0)
        if of_type.max_waiting is not None and waiting >= of_type.max_waiting:
            yield Concern(
                "full",
                f"queue {type!r} is full: {_wait(waiting)}, and its cap is "
                f"{of_type.max_waiting:,}; {_WHEN_FULL[of_type.when_full]}",
                type,
            )


def _wait(number: int) -> str:
    return "1 job waits" if number == 1 else f"{number:,} jobs wait"


def _backlog_warnings(
    by_type: Mapping[str, Mapping[State, int]],
    workers: Sequence[WorkerStatus],
    stats: Recent,
) -> Iterator[Concern]:
    sums = sums_by_type(stats.full)
    minutes = -(-stats.seconds // 60)
    span = "minute" if minutes == 1 else f"{minutes} minutes"
    for type, of_type in sorted(sums.items()):
        waiting = by_type.get(type, {}).get(State.WAITING, 0)
        # Added jobs may still be delayed: it grew by no more than what waits.
        grew = min(of_type.added - of_type.ended, waiting)
        if grew < max(MIN_GROWTH, GROWTH_SHARE * of_type.added):
            continue
        # Without a worker there is a warning about that already.
        if any(takes(worker, type) for worker in workers):
            yield Concern(
                "backlog",
                f"backlog of {type!r} grows: {_jobs(of_type.added)} added and "
                f"{of_type.ended:,} ended in the last {span}; "
                f"{_pace(waiting, of_type, stats.seconds)}",
                type,
            )


def _pace(waiting: int, sums: Stat, seconds: int) -> str:
    takes = drain_ms(waiting, sums, seconds)
    if takes is None:
        return f"{waiting:,} are waiting, and none ended"
    minutes = -(-takes // MINUTE_MS)
    length = f"{minutes:,} min" if minutes < 120 else f"{minutes // 60:,} h"
    return f"the {waiting:,} waiting take {length} at this rate"


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number:,} jobs"
