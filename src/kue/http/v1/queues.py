"""
Queues (types of jobs): counts, rates, pauses, limits and order.

A type may have any name.  In a path it is percent-encoded, and may contain slashes all
the same: with each method the path ends either always in a fixed word or always in the
name, so that no name can be taken for another request.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec

from kue.client.new_job import to_datetime
from kue.http.auth.roles import Scope
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import bad_request, input_errors, not_found
from kue.http.v1.rates import (
    NOTHING,
    Rates,
    drain_ms,
    rates_of,
    recent,
    sums_by_type,
)
from kue.http.v1.stats import (
    Counts,
    Moment,
    PauseView,
    active_pauses,
    check_type,
    counts_of,
    next_waits,
)
from kue.model.duration import milliseconds, optional_ms
from kue.model.histogram import Percentiles, percentiles
from kue.model.job import State
from kue.model.names import Name, check_path_name
from kue.model.view_struct import View
from kue.store.values import MAX_WEIGHT, MAX_WEIGHTS, WhenFull
from kue.worker.unhandled_types import takes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.client.queue import Kue
    from kue.store.values import Limits, Stat, WorkerStatus

section = Section("queues", "Types of jobs: counts, rates, pauses, limits and order.")

MAX_QUEUES = 200
MAX_REASON = 500
#: The largest limit.
MOST = 1_000_000_000

#: A number with a unit; a bare number could be taken for seconds or milliseconds.
DurationText = Annotated[str, msgspec.Meta(max_length=50)]
Most = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Weights = Annotated[
    dict[Name, Annotated[int, msgspec.Meta(ge=1, le=MAX_WEIGHT)]],
    msgspec.Meta(max_length=MAX_WEIGHTS),
]


class LimitsView(View, frozen=True, kw_only=True):
    """Limits of a type, in all workers together, and the order its jobs start in."""

    #: How many run at once.
    concurrency: int | None
    #: How many start each *per* ms.
    rate: int | None
    per: int
    #: How many of one group run at once.
    per_key: int | None
    #: How many may wait; held ones count, delayed and blocked ones do not.
    max_waiting: int | None
    #: What an add does when that many wait.
    when_full: WhenFull
    #: How long it waits for room if it waits, in ms.
    full_timeout: int
    #: Whether groups take turns, and how many turns a group gets where others get one.
    fair: bool
    weights: dict[str, int]
    #: The wait that is worth one step of priority, in ms.
    ageing: int | None


class QueueView(View, frozen=True, kw_only=True):
    """One type of jobs."""

    type: str
    counts: Counts
    #: Its own, and that of everything.
    pauses: list[PauseView]
    limits: LimitsView | None
    rates: Rates
    #: How long jobs waited, and ran, in the last 5 minutes; null if none did.
    latency: Percentiles | None
    run_time: Percentiles | None
    #: How long the waiting jobs take at the rate of the last minutes, in ms, if no more
    #: are added; null if none ended.
    drain_ms: int | None
    #: Live workers that take its jobs.
    workers: int


class QueueDetail(QueueView, frozen=True, kw_only=True):
    """One type of jobs, in detail."""

    #: How long the next job to run has been waiting, in ms; null if none is.
    next_waits_ms: int | None
    #: Whether its alerts and warnings are silenced.
    silenced: bool


class QueueList(msgspec.Struct, frozen=True):
    """Types of jobs, by name."""

    queues: list[QueueView]
    #: To be given as *after* for the next page; null at the end.
    next: str | None
    #: How many there are in all.
    total: int


class QueueListQuery(Input, frozen=True):
    """Which page of the list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_QUEUES)] = MAX_QUEUES
    after: Name | None = None


class PauseOrder(Input, frozen=True):
    """Why, and until when (Unix ms) or for how long ("2h"); else until resumed."""

    reason: Annotated[str, msgspec.Meta(max_length=MAX_REASON)] = ""
    until: Moment | None = None
    lasts: DurationText | None = msgspec.field(default=None, name="for")


class LimitsOrder(Input, frozen=True):
    """Limits to set; omitted ones are removed.  Durations are text, such as "1m"."""

    concurrency: Most | None = None
    rate: Most | None = None
    per: DurationText = "1s"
    per_key: Most | None = None
    #: How many may wait.
    max_waiting: Most | None = None
    #: What an add does when that many wait: it is refused (429), waits for room for up
    #: to *full_timeout*, or cancels the oldest waiting job of the lowest priority.
    when_full: WhenFull = WhenFull.REFUSE
    full_timeout: DurationText = "30s"
    #: Whether groups take turns within each priority; not with *ageing*.
    fair: bool = False
    #: Of a fair type: how many turns a group gets where others get one.
    weights: Weights = {}
    #: The wait that is worth one step of priority.
    ageing: DurationText | None = None


class ClearOrder(Input, frozen=True):
    """Which jobs to remove."""

    states: Annotated[list[State], msgspec.Meta(min_length=1, max_length=len(State))]


class Cleared(msgspec.Struct, frozen=True):
    """How many jobs were removed."""

    removed: int


# -- reading -------------------------------------------------------------------


@section.get("/queues")
async def list_queues(context: RequestContext, query: QueueListQuery) -> QueueList:
    """All types with their counts and rates, by name; up to 200 at a time."""
    facts = await _read_facts(context)
    names = facts.names()
    rest = [name for name in names if query.after is None or name > query.after]
    shown = rest[: query.limit]
    return QueueList(
        queues=[facts.queue(name) for name in shown],
        next=shown[-1] if len(rest) > len(shown) else None,
        total=len(names),
    )


@section.get("/queues/{type:path}")
async def show_queue(context: RequestContext, type: Name) -> QueueDetail:
    """One type of jobs, in detail."""
    facts = await _read_facts(context)
    if type not in facts.names():
        raise not_found(f"there is no queue {type!r}")
    return await _detail(context.q, type, facts)


# -- pauses and limits ---------------------------------------------------------


@section.post("/queues/{type:path}/pause")
async def pause_queue(
    context: RequestContext, type: Name, body: PauseOrder
) -> QueueDetail:
    """
    Pause a type: no more of its jobs are started.

    Running jobs continue, and jobs can still be added.  It replaces an earlier pause.
    """
    options = await pause_options(context, body)
    await check_type(context.q, type)
    with input_errors("path.type"):
        await context.q.pause(type, **options)
    return await _detail(context.q, type, await _read_facts(context))


@section.post("/queues/{type:path}/resume")
async def resume_queue(context: RequestContext, type: Name) -> QueueDetail:
    """Resume a type; a pause of everything stays, and is returned."""
    if not await context.q.resume(type):
        # It may be known by its pause alone.
        await check_type(context.q, type)
    return await _detail(context.q, type, await _read_facts(context))


@section.post("/pause")
async def pause_everything(
    context: RequestContext, body: PauseOrder
) -> list[PauseView]:
    """Pause everything: no more jobs are started; returns the active pauses."""
    await context.q.pause(**await pause_options(context, body))
    return await active_pauses(context)


@section.post("/resume")
async def resume_everything(context: RequestContext) -> list[PauseView]:
    """End the pause of everything; pauses of types and workers stay: see the result."""
    await context.q.resume()
    return await active_pauses(context)


@section.put("/queues/{type:path}/limits")
async def set_limits(
    context: RequestContext, type: Name, body: LimitsOrder
) -> QueueDetail:
    """
    Limit the jobs of a type, in all workers together, and set the order they start in.

    Replaces all that was set before.  May come before the first job.

    At most max_waiting jobs wait; when that many do, when_full decides about the next.
    In a fair type groups take turns; with ageing, waiting that long is worth one step
    of priority.  A type is either fair or has ageing.
    """
    caps = (body.concurrency, body.rate, body.per_key, body.max_waiting)
    if not any((*caps, body.fair, body.ageing, body.weights)):
        raise bad_request(
            "give a limit (concurrency, rate, per_key), max_waiting, fair or ageing; "
            "DELETE removes all of them",
            "body",
        )
    with input_errors("path.type"):
        check_path_name(type, what="type")
    for name, length in (("per", body.per), ("ageing", body.ageing)):
        with input_errors(f"body.{name}"):
            optional_ms(length, name)
    with input_errors("body.full_timeout"):
        milliseconds(body.full_timeout, field="full_timeout")
    with input_errors("body"):
        await context.q.limit(type, **msgspec.structs.asdict(body))
    return await _detail(context.q, type, await _read_facts(context))


@section.delete("/queues/{type:path}/limits", status=HTTPStatus.NO_CONTENT)
async def lift_limits(context: RequestContext, type: Name) -> None:
    """Remove all limits of a type, its cap and its order."""
    if type not in await context.q.limits():
        await check_type(context.q, type)
        return
    await context.q.limit(type)


@section.post("/queues/{type:path}/clear", scope=Scope.ADMIN)
async def clear_queue(context: RequestContext, type: Name, body: ClearOrder) -> Cleared:
    """Permanently remove all jobs of a type in some states, except running ones."""
    if State.ACTIVE in body.states:
        raise bad_request("running jobs are not cleared; cancel them", "body.states")
    await check_type(context.q, type)
    return Cleared(await context.q.clear(type, body.states))


# -- shared parts --------------------------------------------------------------


async def pause_options(context: RequestContext, order: PauseOrder) -> dict[str, Any]:
    """Return why, by whom and until when to pause, as `Kue.pause` takes it."""
    until: datetime | timedelta | None = None
    if order.lasts is not None:
        with input_errors("body.for"):
            if order.until is not None:
                raise ValueError("give until or for, not both")
            until = timedelta(milliseconds=milliseconds(order.lasts, field="for"))
            if not until:
                raise ValueError("a pause lasts at least a millisecond")
    elif order.until is not None:
        if order.until <= await context.q.now():
            raise bad_request("until is a time that has passed", "body.until")
        until = to_datetime(order.until)
    return {"reason": order.reason, "by": context.user.name, "until": until}


class _Facts(NamedTuple):
    """Counts, counters, pauses and limits of all types."""

    now: int
    counts: Mapping[str, Mapping[State, int]]
    pauses: list[PauseView]
    limits: Mapping[str, Limits]
    workers: list[WorkerStatus]
    #: Counters for rates, the time they cover, and all of the last minutes.
    sums: Mapping[str, Stat]
    seconds: int
    measured: Mapping[str, Stat]

    def names(self) -> list[str]:
        """Types that have had jobs, are paused or have limits, sorted."""
        paused = {pause.type for pause in self.pauses if pause.type is not None}
        return sorted(self.counts.keys() | self.limits.keys() | paused)

    def queue(self, type: str) -> QueueView:
        counts = counts_of(self.counts.get(type, {}))
        limits = self.limits.get(type)
        sums, measured = (one.get(type, NOTHING) for one in (self.sums, self.measured))
        return QueueView(
            type=type,
            counts=counts,
            pauses=[pause for pause in self.pauses if pause.type in (type, None)],
            limits=None if limits is None else LimitsView.of(limits),
            rates=rates_of(sums, self.seconds),
            latency=percentiles(measured.waits),
            run_time=percentiles(measured.runs),
            drain_ms=drain_ms(counts.waiting, sums, self.seconds),
            workers=sum(takes(worker, type) for worker in self.workers),
        )


async def _read_facts(context: RequestContext) -> _Facts:
    q = context.q
    now = await q.now()
    stats = await recent(q, now)
    return _Facts(
        now=now,
        counts=await q.counts_by_type(),
        # A worker's pause does not stop a type: others take its jobs.
        pauses=[one for one in await active_pauses(context) if one.worker is None],
        limits=await q.limits(),
        workers=await q.workers(),
        sums=sums_by_type(stats.full),
        seconds=stats.seconds,
        measured=sums_by_type(stats.all),
    )


async def _detail(q: Kue, type: str, facts: _Facts) -> QueueDetail:
    waits = await next_waits(q, facts.now, type)
    silenced = type in (await q.silenced()).types
    return QueueDetail.of(facts.queue(type), next_waits_ms=waits, silenced=silenced)
