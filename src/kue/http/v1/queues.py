"""
Types of jobs as a whole: how they stand, and what holds them back.

A type may have any name.  In a path it is percent-encoded, and may contain slashes all
the same: with each method the path ends in a word of ours or in the name, never in
either, so that no name can be taken for another request.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from kue.http.auth.access import Scope
from kue.http.framework.operations import RequestContext, Section
from kue.http.framework.problem import Refused, given
from kue.http.v1.stats import (
    Counts,
    Moment,
    Rates,
    Sums,
    TypeName,
    check_type,
    counts_of,
    drain_ms,
    next_waits,
    rates_of,
    recent,
    summed,
)
from kue.model.duration import milliseconds
from kue.model.histogram import Percentiles, percentiles
from kue.model.job import State
from kue.model.names import check_path_name
from kue.worker.unhandled_types import takes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kue.client.queue import Kue
    from kue.store.values import Limits, Pause, WorkerStatus

section = Section("queues", "Types of jobs: how they stand, and what holds them back.")

MAX_QUEUES = 200
MAX_REASON = 500
#: No limit needs more than this.
MOST = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: A number with a unit; a bare number could be taken for seconds or milliseconds.
DurationText = Annotated[str, msgspec.Meta(max_length=50)]
Most = Annotated[int, msgspec.Meta(ge=1, le=MOST)]


class PauseView(msgspec.Struct, frozen=True):
    """A pause in force: of a type, of a worker or (with neither) of everything."""

    type: str | None
    worker: str | None
    #: Since when, Unix ms.
    at: int
    reason: str
    by: str
    #: When it ends by itself, Unix ms; null: when it is resumed.
    until: int | None


class LimitsView(msgspec.Struct, frozen=True):
    """What holds jobs of a type back, in all workers together."""

    #: So many run at once.
    concurrency: int | None
    #: So many start each *per* ms.
    rate: int | None
    per: int
    #: So many of one group run at once.
    per_key: int | None


class QueueView(msgspec.Struct, frozen=True):
    """One type of jobs."""

    type: str
    counts: Counts
    #: Its own, and that of everything.
    pauses: list[PauseView]
    limits: LimitsView | None
    rates: Rates
    #: How long jobs waited in line, and ran, in the last 5 minutes; null if none did.
    latency: Percentiles | None
    run_time: Percentiles | None
    #: How long those that wait take at the pace of the last minutes, in ms, if no more
    #: come; null when none ended.
    drain_ms: int | None
    #: Live workers that take its jobs.
    workers: int


class QueueDetail(QueueView, frozen=True):
    """One type of jobs, looked at closely."""

    #: How long the job that is next in line has been waiting, in ms; null if none is.
    next_waits_ms: int | None


class QueueList(msgspec.Struct, frozen=True):
    """Types in the order of their names."""

    queues: list[QueueView]
    #: To be given as *after* for those that follow; null at the end.
    next: str | None
    #: How many there are in all.
    total: int


class QueueListQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of the list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_QUEUES)] = MAX_QUEUES
    after: TypeName | None = None


class PauseOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why, and until when (Unix ms) or for how long ("2h"); else until resumed."""

    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON)] = ""
    until: Moment | None = None
    lasts: DurationText | None = msgspec.field(default=None, name="for")


class LimitsOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits to be in force; those left out are lifted.  *per* is text, as "1m"."""

    concurrency: Most | None = None
    rate: Most | None = None
    per: DurationText = "1s"
    per_key: Most | None = None


class ClearOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs to remove."""

    states: Annotated[list[State], msgspec.Meta(min_length=1, max_length=len(State))]


class Cleared(msgspec.Struct, frozen=True):
    """How many jobs were removed."""

    removed: int


# -- looking -------------------------------------------------------------------


@section.get("/queues")
async def list_queues(call: RequestContext, query: QueueListQuery) -> QueueList:
    """All types with their numbers, by name; up to 200 at a time."""
    facts = await _look(call)
    names = facts.names()
    rest = [name for name in names if query.after is None or name > query.after]
    shown = rest[: query.limit]
    return QueueList(
        queues=[facts.queue(name) for name in shown],
        next=shown[-1] if len(rest) > len(shown) else None,
        total=len(names),
    )


@section.get("/queues/{type:path}")
async def show_queue(call: RequestContext, type: TypeName) -> QueueDetail:
    """One type."""
    facts = await _look(call)
    if type not in facts.names():
        raise Refused(HTTPStatus.NOT_FOUND, f"there is no queue {type!r}")
    return await _detail(call.q, type, facts)


# -- holding back --------------------------------------------------------------


@section.post("/queues/{type:path}/pause")
async def pause_queue(
    call: RequestContext, type: TypeName, body: PauseOrder
) -> QueueDetail:
    """
    Hand out no more jobs of a type.

    What runs goes on, and jobs can still be added.  A pause replaces the one before.
    """
    until = await end_of(call.q, body)
    await check_type(call.q, type)
    with given("path.type"):
        await call.q.pause(type, reason=body.reason, by=call.user.name, until=until)
    return await _detail(call.q, type, await _look(call))


@section.post("/queues/{type:path}/resume")
async def resume_queue(call: RequestContext, type: TypeName) -> QueueDetail:
    """End the pause of a type; one of everything stays, and the answer has it."""
    if not await call.q.resume(type):
        # It may be known by its pause alone.
        await check_type(call.q, type)
    return await _detail(call.q, type, await _look(call))


@section.post("/pause")
async def pause_everything(call: RequestContext, body: PauseOrder) -> list[PauseView]:
    """Hand out no more jobs of any type; answers the pauses now in force."""
    until = await end_of(call.q, body)
    await call.q.pause(reason=body.reason, by=call.user.name, until=until)
    return views(await call.pauses())


@section.post("/resume")
async def resume_everything(call: RequestContext) -> list[PauseView]:
    """End the pause of everything; those of types and workers stay, and are told."""
    await call.q.resume()
    return views(await call.pauses())


@section.put("/queues/{type:path}/limits")
async def set_limits(
    call: RequestContext, type: TypeName, body: LimitsOrder
) -> QueueDetail:
    """
    Hold jobs of a type back, in all workers together.

    Takes the place of all limits there were.  May come before the first job.
    """
    if not any((body.concurrency, body.rate, body.per_key)):
        raise Refused(
            HTTPStatus.BAD_REQUEST,
            "give concurrency, rate or per_key; DELETE lifts all limits",
            field="body",
        )
    with given("path.type"):
        check_path_name(type, what="type")
    with given("body.per"):
        await call.q.limit(
            type,
            concurrency=body.concurrency,
            rate=body.rate,
            per=body.per,
            per_key=body.per_key,
        )
    return await _detail(call.q, type, await _look(call))


@section.delete("/queues/{type:path}/limits", status=HTTPStatus.NO_CONTENT)
async def lift_limits(call: RequestContext, type: TypeName) -> None:
    """Let nothing hold jobs of a type back any more."""
    if type not in await call.q.limits():
        await check_type(call.q, type)
        return
    await call.q.limit(type)


@section.post("/queues/{type:path}/clear", scope=Scope.ADMIN)
async def clear_queue(
    call: RequestContext, type: TypeName, body: ClearOrder
) -> Cleared:
    """Remove all jobs of a type that are in some states, for good; not running ones."""
    if State.ACTIVE in body.states:
        raise Refused(
            HTTPStatus.BAD_REQUEST,
            "jobs that run are not cleared; cancel them",
            field="body.states",
        )
    await check_type(call.q, type)
    return Cleared(await call.q.clear(type, body.states))


# -- how -----------------------------------------------------------------------


async def end_of(q: Kue, order: PauseOrder) -> datetime | timedelta | None:
    """
    Return when a pause is to end.

    Raises:
        Refused: That cannot be read, has passed, or is given twice.
    """
    if order.lasts is None:
        if order.until is None:
            return None
        with given("body.until"):
            if order.until <= await q.now():
                raise ValueError("until is a time that has passed")
        return _EPOCH + timedelta(milliseconds=order.until)
    with given("body.for"):
        if order.until is not None:
            raise ValueError("give until or for, not both")
        lasts = milliseconds(order.lasts, field="for")
        if lasts < 1:
            raise ValueError("a pause lasts a millisecond at least")
    return timedelta(milliseconds=lasts)


def views(pauses: Iterable[Pause]) -> list[PauseView]:
    """Return pauses as they are shown."""
    return [PauseView(**msgspec.structs.asdict(pause)) for pause in pauses]


class _Facts(NamedTuple):
    """What is known of all types."""

    now: int
    counts: Mapping[str, Mapping[State, int]]
    pauses: list[Pause]
    limits: Mapping[str, Limits]
    workers: list[WorkerStatus]
    #: What rates are taken from, the time that covers, and all of the last minutes.
    sums: Mapping[str, Sums]
    seconds: int
    measured: Mapping[str, Sums]

    def names(self) -> list[str]:
        """Types that have had jobs, are paused or have limits, sorted."""
        paused = {pause.type for pause in self.pauses if pause.type is not None}
        return sorted(self.counts.keys() | self.limits.keys() | paused)

    def queue(self, type: str) -> QueueView:
        counts = counts_of(self.counts.get(type, {}))
        sums, measured = (one.get(type, Sums()) for one in (self.sums, self.measured))
        return QueueView(
            type=type,
            counts=counts,
            pauses=views(pause for pause in self.pauses if pause.type in (type, None)),
            limits=_limits_view(self.limits.get(type)),
            rates=rates_of(sums, self.seconds),
            latency=percentiles(measured.waits),
            run_time=percentiles(measured.runs),
            drain_ms=drain_ms(counts.waiting, sums, self.seconds),
            workers=sum(takes(worker, type) for worker in self.workers),
        )


def _limits_view(limits: Limits | None) -> LimitsView | None:
    return None if limits is None else LimitsView(**msgspec.structs.asdict(limits))


async def _look(call: RequestContext) -> _Facts:
    q = call.q
    now = await q.now()
    stats = await recent(q, now)
    return _Facts(
        now=now,
        counts=await q.counts_by_type(),
        # A worker's pause holds back no type: others take its jobs.
        pauses=[pause for pause in await call.pauses() if pause.worker is None],
        limits=await q.limits(),
        workers=await q.workers(),
        sums=summed(stats.full, lambda stat: stat.type),
        seconds=stats.seconds,
        measured=summed(stats.all, lambda stat: stat.type),
    )


async def _detail(q: Kue, type: str, facts: _Facts) -> QueueDetail:
    queue = msgspec.structs.asdict(facts.queue(type))
    return QueueDetail(**queue, next_waits_ms=await next_waits(q, facts.now, type))
