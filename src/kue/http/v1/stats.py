"""Statistics of the whole queue: counts, rates, history and warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeVar

import msgspec

from kue.client.queries import STATS_HOURS, STATS_MINUTES
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import bad_request, not_found
from kue.http.v1.job_json import MAX_MOMENT
from kue.model.alerts import AlertKind
from kue.model.histogram import Percentiles, percentiles, waiting_since
from kue.model.job import State
from kue.model.names import Name
from kue.model.view_struct import View
from kue.store import values
from kue.store.values import Stat, WhenFull
from kue.worker.unhandled_types import takes, unhandled
from kue.worker.waiting_time import oldest_waits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kue.client.queue import Kue
    from kue.model.circuit import Circuit
    from kue.store.values import Limits, WorkerStatus

section = Section("stats", "Counts and rates of jobs, their history, and warnings.")

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
#: Full minutes that rates are averaged over.
RATE_MINUTES = 5
#: A queue without a job in the minutes before those, up to this many ago, is new.
QUIET_MINUTES = 15
#: Steps of a history whose beginning is not given.
STEPS = 60
#: Warnings in one response; `Overview.more_warnings` counts the others.
MAX_WARNINGS = 200
#: A backlog grows if at least this many more jobs, and this share, came than ended.
MIN_GROWTH = 10
GROWTH_SHARE = 0.1
_MINUTES = {"minute": 1, "hour": 60, "day": 24 * 60}

#: Unix ms.
Moment = Annotated[int, msgspec.Meta(ge=0, le=MAX_MOMENT)]

K = TypeVar("K")

#: Counters of a time without activity.
NOTHING = Stat(0, "")


class Counts(msgspec.Struct, frozen=True):
    """How many jobs are in each state."""

    waiting: int = 0
    active: int = 0
    delayed: int = 0
    blocked: int = 0
    complete: int = 0
    failed: int = 0
    cancelled: int = 0


class Rates(msgspec.Struct, frozen=True):
    """Jobs per second, over the last five full minutes."""

    added: float = 0
    complete: float = 0
    failed: float = 0


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


class Concern(msgspec.Struct, frozen=True):
    """A warning for operators."""

    code: Literal[
        "alert", "lost-worker", "circuit", "paused", "no-worker", "full", "backlog"
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


class Recent(NamedTuple):
    """Counters of the last minutes."""

    #: For rates: those of full minutes, or all of a queue that is new.
    full: list[Stat]
    #: The time that they cover.
    seconds: int
    #: With the current minute, for what is shown at once.
    all: list[Stat]


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
    concerns = _unrepeated(
        [
            *(
                Concern("alert", one.message, one.type, alert=one.kind)
                for one in alerts
            ),
            *_circuit_warnings(await known_circuits(context)),
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


async def recent(q: Kue, now: int) -> Recent:
    """Return the counters for rates and percentiles."""
    minute = now // MINUTE_MS
    return recent_of(await q.stats(minute - QUIET_MINUTES, minute), now)


def recent_of(found: Sequence[Stat], now: int) -> Recent:
    """Return what `recent` does, of the counters of the last `QUIET_MINUTES`."""
    minute = now // MINUTE_MS
    late = [stat for stat in found if stat.minute >= minute - RATE_MINUTES]
    if late and len(late) == len(found):
        # A new queue: its jobs are not averaged over the minutes before it.
        since = min(stat.minute for stat in late) * 60
        seconds = min(RATE_MINUTES * 60, max(60, now // 1000 - since))
        return Recent(late, seconds, late)
    full = [stat for stat in late if stat.minute < minute]
    return Recent(full, RATE_MINUTES * 60, late)


def summed(stats: Iterable[Stat], key: Callable[[Stat], K]) -> dict[K, Stat]:
    """Return the sums of all counters that have the same *key*."""
    by_key: dict[K, list[Stat]] = {}
    for stat in stats:
        by_key.setdefault(key(stat), []).append(stat)
    return {one: total(of_one) for one, of_one in by_key.items()}


def sums_by_type(stats: Iterable[Stat]) -> dict[str, Stat]:
    """Return the sums of all counters of each type."""
    return summed(stats, lambda stat: stat.type)


def total(stats: Sequence[Stat]) -> Stat:
    """Return the sums of all counters."""
    return values.summed(0, "", stats)


def rates_of(sums: Stat, seconds: int) -> Rates:
    """Return the sums of *seconds* as rates per second."""
    numbers = (sums.added, sums.complete, sums.failed)
    return Rates(*(round(number / seconds, 4) for number in numbers))


def drain_ms(waiting: int, sums: Stat, seconds: int) -> int | None:
    """
    Return how long the waiting jobs take at the rate of the last *seconds*, in ms.

    As if no more were added; None if none ended in that time.
    """
    if not waiting:
        return 0
    return waiting * seconds * 1000 // sums.ended if sums.ended else None


def counts_of(states: Mapping[State, int]) -> Counts:
    return Counts(**{state.value: number for state, number in states.items()})


async def next_waits(q: Kue, now: int, type: str | None = None) -> int | None:
    """Return how long the next job to run has been waiting, in ms."""
    page = await q.page(State.WAITING, type, limit=1)
    return max(0, now - waiting_since(page.jobs[0])) if page.jobs else None


# -- workers and warnings ------------------------------------------------------


def worker_counts(workers: Sequence[WorkerStatus]) -> WorkerCounts:
    return WorkerCounts(
        alive=sum(worker.alive for worker in workers),
        busy=sum(worker.alive and worker.active > 0 for worker in workers),
        lost=sum(worker.lost for worker in workers),
    )


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


def _unrepeated(
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


def _circuit_warnings(circuits: Iterable[Circuit]) -> Iterator[Concern]:
    for one in circuits:
        if one.state != "closed":
            message = f"circuit {one.name!r} {one.summary}"
            yield Concern("circuit", message, circuit=one.name)


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
