"""Statistics of the whole queue: the overview, and the history of counters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from kue.client.new_job import MAX_MOMENT
from kue.client.queries import STATS_HOURS, STATS_MINUTES
from kue.client.stuck_jobs import failed_parents
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import bad_request, not_found
from kue.http.v1.rates import (
    MINUTE_MS,
    NOTHING,
    Rates,
    rates_of,
    recent,
    summed,
    total,
)
from kue.http.v1.warnings import (
    Concern,
    circuit_warnings,
    failed_parent_warnings,
    unrepeated,
    warnings_of,
)
from kue.model.histogram import Percentiles, percentiles, waiting_since
from kue.model.job import State
from kue.model.names import Name
from kue.model.view_struct import View
from kue.worker.waiting_time import oldest_waits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kue.client.queue import Kue
    from kue.client.stuck_jobs import FailedParent
    from kue.model.circuit import Circuit
    from kue.store.values import Stat, WorkerStatus

section = Section("stats", "Counts and rates of jobs, their history, and warnings.")

HOUR_MS = 60 * MINUTE_MS
#: Steps of a history whose beginning is not given.
STEPS = 60
#: Warnings in one response; `Overview.more_warnings` counts the others.
MAX_WARNINGS = 200
_MINUTES = {"minute": 1, "hour": 60, "day": 24 * 60}

#: Unix ms.
Moment = Annotated[int, msgspec.Meta(ge=0, le=MAX_MOMENT)]


class Counts(msgspec.Struct, frozen=True):
    """How many jobs are in each state."""

    waiting: int = 0
    active: int = 0
    delayed: int = 0
    blocked: int = 0
    complete: int = 0
    failed: int = 0
    cancelled: int = 0


class WorkerCounts(msgspec.Struct, frozen=True):
    """How many workers there are; lost ones disappeared without stopping."""

    alive: int
    #: Of those that are alive, how many run jobs.
    busy: int
    lost: int


class StoreView(msgspec.Struct, frozen=True):
    """The store of the jobs."""

    #: redis, valkey or sqlite.
    engine: str
    version: str
    #: Memory that Redis uses, or size of the file; null if unknown.
    memory_bytes: int | None
    #: How long the shortest call to it took.
    rtt_ms: float
    #: Its URL, with the database and without credentials.
    name: str


class PauseView(View, frozen=True, kw_only=True):
    """An active pause: of a type, of a worker or (with neither) of everything."""

    type: str | None
    worker: str | None
    #: Since when, Unix ms.
    at: int
    reason: str
    by: str
    #: When it ends by itself, Unix ms; null if only by resuming.
    until: int | None


class Overview(msgspec.Struct, frozen=True):
    """The current state of the queue."""

    counts: Counts
    workers: WorkerCounts
    rates: Rates
    #: How long the next job to run has been waiting, in ms; null if none is.
    next_waits_ms: int | None
    #: The longest that one of the first 20 jobs of each priority has been waiting.
    oldest_waits_ms: int | None
    #: How long jobs waited, and ran, in the last 5 minutes; null if none did.
    latency: Percentiles | None
    run_time: Percentiles | None
    store: StoreView
    warnings: list[Concern]
    #: How many more warnings there are.
    more_warnings: int


class HistoryQuery(Input, frozen=True):
    """Which time range, in which steps, of which type."""

    since: Moment | None = None
    until: Moment | None = None
    step: Literal["minute", "hour", "day"] = "minute"
    type: Name | None = None


class Point(msgspec.Struct, frozen=True):
    """Counters of one step."""

    #: When the step begins, Unix ms.
    at: int
    added: int
    complete: int
    failed: int
    #: Time of all runs that ended, in ms.
    run_ms: int
    #: How long jobs waited, and ran; null if none did.
    wait: Percentiles | None
    run: Percentiles | None


class History(msgspec.Struct, frozen=True):
    """Counters by step."""

    #: Beginning of the first and of the last minute (with other steps: hour) that is
    #: covered, Unix ms.
    since: int
    until: int
    step: str
    points: list[Point]


@section.get("/stats")
async def overview(context: RequestContext) -> Overview:
    """Counts and rates of all types, and warnings of what keeps jobs from running."""
    q = context.q
    now = await q.now()
    by_type = await q.counts_by_type()
    workers = await q.workers()
    stats = await recent(q, now)
    measured = total(stats.all)
    alerts, silenced = await q.alerts(), await q.silenced()
    concerns = unrepeated(
        [
            *(
                Concern("alert", one.message, one.type, alert=one.kind)
                for one in alerts
            ),
            *circuit_warnings(await known_circuits(context)),
            *failed_parent_warnings(await _failed_parents(q, by_type)),
            *warnings_of(
                by_type, workers, await active_pauses(context), stats, await q.limits()
            ),
        ],
        {(one.type, one.kind) for one in alerts},
        silenced.types,
    )
    return Overview(
        counts=counts_of(
            {state: sum(one[state] for one in by_type.values()) for state in State}
        ),
        workers=worker_counts(workers),
        rates=rates_of(total(stats.full), stats.seconds),
        next_waits_ms=await next_waits(q, now),
        oldest_waits_ms=await oldest_waits(q.store, now, silenced=silenced.tags),
        latency=percentiles(measured.waits),
        run_time=percentiles(measured.runs),
        store=StoreView(*await q.facts(), q.store.name),
        warnings=concerns[:MAX_WARNINGS],
        more_warnings=max(0, len(concerns) - MAX_WARNINGS),
    )


async def _failed_parents(
    q: Kue, by_type: Mapping[str, Mapping[State, int]]
) -> list[FailedParent]:
    if not any(states[State.BLOCKED] for states in by_type.values()):
        return []
    return await failed_parents(q.store)


@section.get("/stats/history")
async def history(context: RequestContext, query: HistoryQuery) -> History:
    """
    Jobs added, completed and failed by minute, hour or day (UTC).

    Steps without activity have a point, too.  The range includes the minutes of since
    and until; with steps of an hour or a day, their hours.  Minutes are kept for 24
    hours, hours and days for 90 days: times before that, or after now, are cut off, and
    the response has the range it covers.  Without since there are 60 steps.
    """
    await check_type(context.q, query.type)
    by_minute = query.step == "minute"
    unit = MINUTE_MS if by_minute else HOUR_MS
    kept = STATS_MINUTES if by_minute else STATS_HOURS - 1
    first, last = _span(query, await context.q.now(), unit, kept)
    read = context.q.stats if by_minute else context.q.hours
    found = await read(first, last) if first <= last else []
    size = _MINUTES[query.step] * MINUTE_MS
    wanted = (stat for stat in found if query.type in (None, stat.type))
    sums = summed(wanted, lambda stat: stat.minute * MINUTE_MS // size)
    steps = range(first * unit // size, last * unit // size + 1)
    return History(
        since=first * unit,
        until=last * unit,
        step=query.step,
        points=[
            _point(step * size, sums.get(step, NOTHING))
            for step in (steps if first <= last else ())
        ],
    )


def _point(at: int, sums: Stat) -> Point:
    wait, run = percentiles(sums.waits), percentiles(sums.runs)
    return Point(at, sums.added, sums.complete, sums.failed, sums.run_ms, wait, run)


def _span(query: HistoryQuery, now: int, unit: int, kept: int) -> tuple[int, int]:
    """Return the first and the last *unit* requested, of the *kept* ones."""
    until = now if query.until is None else min(query.until, now)
    last = until // unit
    if query.since is None:
        in_step = _MINUTES[query.step] * MINUTE_MS // unit
        first = (last // in_step - STEPS + 1) * in_step
    else:
        first = query.since // unit
        if query.until is not None and query.since > query.until:
            raise bad_request("since is after until", "query.since")
    return max(first, now // unit - kept), last


# -- shared with other sections ------------------------------------------------


async def check_type(q: Kue, type: str | None) -> None:
    """Raise `Refused` unless *type* is None or has had a job."""
    if type is not None and type not in await q.types():
        raise not_found(f"no job of type {type!r} is known")


async def active_pauses(context: RequestContext) -> list[PauseView]:
    """Return the active pauses, with secrets hidden."""
    hide = context.redaction.text
    pauses = await context.q.paused()
    return [PauseView.of(pause, reason=hide(pause.reason)) for pause in pauses]


async def known_circuits(context: RequestContext) -> list[Circuit]:
    """Return the circuits that the store knows, with secrets hidden."""
    return [hidden(context, one) for one in await context.q.circuits()]


def hidden(context: RequestContext, circuit: Circuit) -> Circuit:
    """Return *circuit* with secrets hidden."""
    hide = context.redaction.text
    return msgspec.structs.replace(
        circuit, cause=hide(circuit.cause), last_error=hide(circuit.last_error)
    )


def counts_of(states: Mapping[State, int]) -> Counts:
    return Counts(**{state.value: number for state, number in states.items()})


async def next_waits(q: Kue, now: int, type: str | None = None) -> int | None:
    """Return how long the next job to run has been waiting, in ms."""
    page = await q.page(State.WAITING, type, limit=1)
    return max(0, now - waiting_since(page.jobs[0])) if page.jobs else None


def worker_counts(workers: Sequence[WorkerStatus]) -> WorkerCounts:
    return WorkerCounts(
        alive=sum(worker.alive for worker in workers),
        busy=sum(worker.alive and worker.active > 0 for worker in workers),
        lost=sum(worker.lost for worker in workers),
    )
