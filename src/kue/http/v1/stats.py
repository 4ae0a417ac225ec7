"""How the queue does as a whole: numbers now, numbers by time, and what is amiss."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeVar

import msgspec

from kue.http.problem import Refused
from kue.http.section import Call, Section
from kue.job import State
from kue.names import MAX_BYTES
from kue.reading import STATS_MINUTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kue.job import Job
    from kue.queue import Kue
    from kue.store.values import Pause, Stat, WorkerStatus

section = Section("stats", "How many jobs there are, come and go, and what is amiss.")

MINUTE_MS = 60_000
#: Full minutes that rates are taken over.
RATE_MINUTES = 5
#: Steps of a history whose beginning is not given.
STEPS = 60
#: Warnings told at once; `Overview.more_warnings` counts the others.
MAX_WARNINGS = 200
_MINUTES = {"minute": 1, "hour": 60, "day": 24 * 60}

TypeName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_BYTES)]
#: Unix ms, to the end of the year 9999.
Moment = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]

K = TypeVar("K")


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
    """Jobs a second, over the last five full minutes."""

    added: float = 0
    complete: float = 0
    failed: float = 0


class WorkerCounts(msgspec.Struct, frozen=True):
    """How many workers there are; lost ones are gone with jobs still in their hands."""

    alive: int
    lost: int


class Concern(msgspec.Struct, frozen=True):
    """Something an operator should know of."""

    code: Literal["lost-worker", "paused", "no-worker"]
    #: What is so with which thing, in a sentence.
    message: str
    #: The type it is about, if it is about one.
    queue: str | None = None
    #: The worker it is about, if it is about one.
    worker: str | None = None


class Overview(msgspec.Struct, frozen=True):
    """The queue at one moment."""

    counts: Counts
    workers: WorkerCounts
    rates: Rates
    #: How long the job that is next in line has been waiting, in ms; null if none is.
    next_waits_ms: int | None
    warnings: list[Concern]
    #: Warnings there are beyond those listed.
    more_warnings: int


class HistoryQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which time, in which steps, of which type."""

    since: Moment | None = None
    until: Moment | None = None
    step: Literal["minute", "hour", "day"] = "minute"
    type: TypeName | None = None


class Point(msgspec.Struct, frozen=True):
    """What happened in one step."""

    #: When the step begins, Unix ms.
    at: int
    added: int
    complete: int
    failed: int
    #: Time of all runs that ended, in ms.
    run_ms: int


class History(msgspec.Struct, frozen=True):
    """What happened, step by step."""

    #: Beginning of the first and of the last minute that is covered, Unix ms.
    since: int
    until: int
    step: str
    points: list[Point]


class Sums(NamedTuple):
    """Counters of several minutes together."""

    added: int = 0
    complete: int = 0
    failed: int = 0
    run_ms: int = 0


@section.get("/stats")
async def overview(call: Call) -> Overview:
    """Numbers of all types together, and warnings of what keeps jobs from running."""
    q = call.q
    now = await q.now()
    by_type = await q.counts_by_type()
    workers = await q.workers()
    rates = summed(await recent(q, now), lambda _: None).get(None, Sums())
    concerns = [
        *_of_lost(workers),
        *_of_pauses(await q.paused()),
        *_of_unserved(by_type, workers),
    ]
    return Overview(
        counts=counts_of(
            {state: sum(one[state] for one in by_type.values()) for state in State}
        ),
        workers=worker_counts(workers),
        rates=rates_of(rates),
        next_waits_ms=await next_waits(q, now),
        warnings=concerns[:MAX_WARNINGS],
        more_warnings=max(0, len(concerns) - MAX_WARNINGS),
    )


@section.get("/stats/history")
async def history(call: Call, query: HistoryQuery) -> History:
    """
    Jobs added, completed and failed by minute, hour or day (UTC).

    Steps in which nothing happened have their point, too.  The minutes that since and
    until lie in count.  Counters reach back 24 hours: what lies before that, or after
    now, is cut off, and the answer says which time it covers.  Without since there are
    60 steps.
    """
    if query.type is not None:
        await check_type(call.q, query.type)
    first, last = _minutes(query, await call.q.now())
    found = await call.q.stats(first, last) if first <= last else []
    size = _MINUTES[query.step]
    wanted = (stat for stat in found if query.type in (None, stat.type))
    sums = summed(wanted, lambda stat: stat.minute // size)
    steps = range(first // size, last // size + 1) if first <= last else ()
    return History(
        since=first * MINUTE_MS,
        until=last * MINUTE_MS,
        step=query.step,
        points=[
            Point(step * size * MINUTE_MS, *sums.get(step, Sums())) for step in steps
        ],
    )


def _minutes(query: HistoryQuery, now: int) -> tuple[int, int]:
    """Return the first and the last minute asked for, of those that are kept."""
    until = now if query.until is None else min(query.until, now)
    last = until // MINUTE_MS
    if query.since is None:
        first = last - STEPS * _MINUTES[query.step] + 1
    else:
        first = query.since // MINUTE_MS
        if query.until is not None and query.since > query.until:
            raise Refused(
                HTTPStatus.BAD_REQUEST, "since is after until", field="query.since"
            )
    return max(first, now // MINUTE_MS - STATS_MINUTES), last


# -- what other sections ask, too ----------------------------------------------


async def check_type(q: Kue, type: str) -> None:
    """
    Do nothing if *type* has had a job.

    Raises:
        Refused: No job of that type was ever added.
    """
    if type not in await q.types():
        raise Refused(HTTPStatus.NOT_FOUND, f"no job of type {type!r} was ever added")


async def recent(q: Kue, now: int) -> list[Stat]:
    """Return the counters that rates are taken from."""
    last = now // MINUTE_MS - 1
    return await q.stats(last - RATE_MINUTES + 1, last)


def summed(stats: Iterable[Stat], key: Callable[[Stat], K]) -> dict[K, Sums]:
    """Return the sums of all counters that have the same *key*."""
    sums: dict[K, Sums] = {}
    for stat in stats:
        one = (stat.added, stat.complete, stat.failed, stat.run_ms)
        known = sums.get(key(stat), Sums())
        sums[key(stat)] = Sums(*(a + b for a, b in zip(known, one, strict=True)))
    return sums


def rates_of(sums: Sums) -> Rates:
    """Return sums of the last minutes by the second."""
    seconds = RATE_MINUTES * 60
    return Rates(*(round(number / seconds, 4) for number in sums[:3]))


def counts_of(states: Mapping[State, int]) -> Counts:
    return Counts(**{state.value: number for state, number in states.items()})


async def next_waits(q: Kue, now: int, type: str | None = None) -> int | None:
    """Return how long the job that is next in line has been waiting, in ms."""
    page = await q.page(State.WAITING, type, limit=1)
    return max(0, now - _waiting_since(page.jobs[0])) if page.jobs else None


def _waiting_since(job: Job) -> int:
    """Return since when a waiting job could have run, Unix ms."""
    if job.history:
        return job.history[-1].at + job.history[-1].delay
    return job.created_at + job.spec.delay


# -- workers and warnings ------------------------------------------------------


def is_lost(worker: WorkerStatus) -> bool:
    """
    Tell whether a worker is gone with jobs still in its hands.

    One without any may as well have left in good order: the store forgets either, as
    soon as someone tends.
    """
    return not worker.alive and worker.active > 0


def takes(worker: WorkerStatus, type: str) -> bool:
    """Tell whether a worker takes jobs of *type*; one that does not say so may."""
    slots = worker.info.get("slots")
    return worker.alive and (not isinstance(slots, dict) or type in slots)


def worker_counts(workers: Iterable[WorkerStatus]) -> WorkerCounts:
    known = list(workers)
    return WorkerCounts(
        alive=sum(worker.alive for worker in known), lost=sum(map(is_lost, known))
    )


def _of_lost(workers: Iterable[WorkerStatus]) -> Iterator[Concern]:
    for worker in filter(is_lost, workers):
        yield Concern(
            "lost-worker",
            f"worker {worker.name!r} is gone with {_jobs(worker.active)} in its hands; "
            "the next worker that tends puts them back in line",
            worker=worker.name,
        )


def _of_pauses(pauses: Iterable[Pause]) -> Iterator[Concern]:
    for pause in pauses:
        what = "everything" if pause.type is None else f"queue {pause.type!r}"
        if pause.worker is not None:
            what = f"worker {pause.worker!r}"
        by = f" by {pause.by}" if pause.by else ""
        why = f": {pause.reason}" if pause.reason else ""
        yield Concern(
            "paused", f"{what} is paused{by}{why}", pause.type, worker=pause.worker
        )


def _of_unserved(
    by_type: Mapping[str, Mapping[State, int]], workers: Iterable[WorkerStatus]
) -> Iterator[Concern]:
    known = list(workers)
    for type, states in sorted(by_type.items()):
        number = states[State.WAITING]
        if number and not any(takes(worker, type) for worker in known):
            verb = "waits" if number == 1 else "wait"
            yield Concern(
                "no-worker",
                f"{_jobs(number)} of type {type!r} {verb}, and no live worker takes it",
                type,
            )


def _jobs(number: int) -> str:
    return "1 job" if number == 1 else f"{number:,} jobs"
