"""
Numbers for autoscalers: the backlog of some types, and the workers it needs.

For KEDA's metrics-api scaler and others that read one number of a JSON document: none
is ever null, and types without a job are zeros, not an error.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import bad_request, input_errors
from kue.http.v1.rates import NOTHING, recent, sums_by_type
from kue.model.duration import milliseconds
from kue.model.names import Name
from kue.worker.backlog import backlogs, first_waits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.store.values import Stat, WorkerStatus
    from kue.worker.backlog import Backlog

section = Section("scaling", "Numbers for autoscalers.")

MAX_TYPES = 100
TARGET_WAIT = "5s"
#: More slots than any worker has.
MANY = 2**31


class ScalingQuery(Input, frozen=True):
    """Which types, a,b,c, or all; and how long their jobs may wait, as text ("5s")."""

    types: Annotated[list[Name], msgspec.Meta(max_length=MAX_TYPES)] = []
    target_wait: Annotated[str, msgspec.Meta(max_length=50)] = TARGET_WAIT


class Scaling(msgspec.Struct, frozen=True):
    """Backlog and workers of some types."""

    #: Jobs that wait and could start: not those of paused types, or over a limit.
    backlog: int
    #: How long the first job of a type waits, the longest of all types.
    oldest_wait_seconds: float
    #: Jobs that run.
    running: int
    #: Live workers (processes) that take any of the types, and how many of their jobs
    #: they run at once.
    workers: int
    slots: int
    #: Workers that keep up and take the backlog within target_wait; 0 if there is
    #: nothing to do, and at least 1 otherwise.
    wanted: int


@section.get("/scaling")
async def show_scaling(context: RequestContext, query: ScalingQuery) -> Scaling:
    """
    Backlog, wait and running jobs of some types, and how many workers they need.

    From how long jobs ran in the last five minutes.  While that is not known, every
    waiting job is counted as one that needs a slot.
    """
    q = context.q
    target = _target(query)
    found = await backlogs(q.store, query.types or await q.types())
    slots = SlotsOfWorkers.of(await q.workers(), found)
    found = {type: slots.runnable(type, backlog) for type, backlog in found.items()}
    now = await q.now()
    waits = await first_waits(q.store, found, now=now)
    sums = sums_by_type((await recent(q, now)).all)
    demand = {
        type: _demand(backlog, sums.get(type, NOTHING), target)
        for type, backlog in found.items()
    }
    return Scaling(
        backlog=sum(backlog.waiting for backlog in found.values()),
        oldest_wait_seconds=max(waits.values(), default=0.0),
        running=sum(backlog.running for backlog in found.values()),
        workers=slots.workers,
        slots=slots.total,
        wanted=slots.wanted(demand),
    )


def _target(query: ScalingQuery) -> int:
    with input_errors("query.target_wait"):
        target = milliseconds(query.target_wait, field="target_wait")
    if not target:
        raise bad_request("target_wait must be more than 0", "query.target_wait")
    return target


def _demand(backlog: Backlog, sums: Stat, target: int) -> float:
    """Return how many slots keep up with a type, and take its backlog in time."""
    if not sums.ended:
        return backlog.running + backlog.waiting
    # One slot runs this share of the jobs, one after the other.
    share = sums.run_ms / sums.ended / target
    return backlog.running + backlog.waiting * min(1.0, share)


class SlotsOfWorkers(NamedTuple):
    """Slots of live workers for some types."""

    workers: int
    total: int
    #: Workers that take a type, and their slots for it.
    by_type: dict[str, tuple[int, int]]

    @classmethod
    def of(
        cls, workers: list[WorkerStatus], types: Mapping[str, Backlog]
    ) -> SlotsOfWorkers:
        by_type = dict.fromkeys(types, (0, 0))
        number, total = 0, 0
        for worker in workers:
            taken = {type: n for type, n in _slots(worker).items() if type in types}
            for type, one in taken.items():
                by_type[type] = by_type[type][0] + 1, by_type[type][1] + one
            number += bool(taken)
            total += min(sum(taken.values()), _shared(worker))
        return cls(number, total, by_type)

    def runnable(self, type: str, backlog: Backlog) -> Backlog:
        """Return *backlog* without jobs that wait for a limit while slots are free."""
        slots = self.by_type[type][1]
        waiting = backlog.runnable(running=backlog.running, slots=slots)
        return backlog._replace(waiting=waiting)

    def wanted(self, demand: Mapping[str, float]) -> int:
        """Return how many workers, of the size of those there are, meet *demand*."""
        needed = [_ratio(slots, *self.by_type[type]) for type, slots in demand.items()]
        return max([_ratio(sum(demand.values()), self.workers, self.total), *needed])


def _ratio(slots: float, workers: int, total: int) -> int:
    """Return how many workers have *slots*, if *workers* have *total*."""
    if not slots:
        return 0
    # Without a worker their size is not known: one to begin with.
    return max(1, math.ceil(slots * workers / total)) if total else 1


def _slots(worker: WorkerStatus) -> dict[str, int]:
    """Return the slots of a live worker by type, as far as it reports them."""
    slots = worker.info.get("slots")
    if not worker.alive or not isinstance(slots, dict):
        return {}
    shared = _shared(worker)
    return {
        type: min(number, shared)
        for type, number in slots.items()
        if isinstance(number, int) and number > 0
    }


def _shared(worker: WorkerStatus) -> int:
    """Return the slots that all its types share; many if there is no such limit."""
    shared = worker.info.get("concurrency")
    return shared if isinstance(shared, int) else MANY
