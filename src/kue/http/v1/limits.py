"""
Named limits: rates and concurrency that jobs share, by name and by key.

A limit may have any name; paths with names are those of `kue.http.v1.queues`.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec.structs import replace

from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import bad_request, input_errors, not_found
from kue.http.v1.queues import DurationText
from kue.model.duration import milliseconds
from kue.model.job import State
from kue.model.limit_json import (
    LimitDetail,
    LimitView,
    limit_detail,
    limit_view,
)
from kue.model.named_limits import MAX_NUMBER, LimitRule, TaskLimit
from kue.model.names import Name, check_path_name
from kue.model.view_struct import View
from kue.store.values import MAX_BATCH, Filter

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.model.job import Job
    from kue.model.named_limits import StoredLimit
    from kue.store.values import LimitUse

section = Section("limits", "Limits that jobs share by name: list, set and delete.")

MAX_LIST = 200
#: Keys of a limit that are counted, or shown.
MAX_KEYS = MAX_BATCH
#: Jobs of a limit that are shown, and jobs read to find them, of each state.
MAX_JOBS, MAX_SCAN = 50, 500

Most = Annotated[int, msgspec.Meta(ge=1, le=MAX_NUMBER)]


class LimitList(msgspec.Struct, frozen=True):
    """Named limits, by name."""

    limits: list[LimitView]
    #: To be given as *after* for the next page; null at the end.
    next: str | None
    #: How many there are in all.
    total: int


class LimitListQuery(Input, frozen=True):
    """Which page of the list."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIST)] = MAX_LIST
    after: Name | None = None


class LimitedJob(View, frozen=True, kw_only=True):
    """A job that counts against a limit."""

    id: int
    type: str
    state: State
    key: str
    #: Why a limit or a pause holds it back; empty if none does.
    held: str
    #: When time alone lets it start, Unix ms; null if a run must end first.
    held_until: int | None


class NamedLimit(LimitDetail, frozen=True, kw_only=True):
    """A limit that jobs share by name, with its keys and some of its jobs."""

    #: Some that run or are held back, of the first 500 jobs of their state.
    jobs: list[LimitedJob]


class LimitQuery(Input, frozen=True):
    """How many running and how many waiting jobs to show."""

    jobs: Annotated[int, msgspec.Meta(ge=0, le=MAX_JOBS)] = 10


class LimitOrder(Input, frozen=True):
    """What to allow: concurrency, or rate.  *per* is text, such as "1m"."""

    #: How many run at once.
    concurrency: Most | None = None
    #: How many start in any *per*.
    rate: Most | None = None
    per: DurationText = "1s"
    #: How many may start at once, with the rate as the average.
    burst: Most | None = None


# -- reading -------------------------------------------------------------------


@section.get("/limits")
async def list_limits(context: RequestContext, query: LimitListQuery) -> LimitList:
    """All named limits with their rules and use, by name; up to 200 at a time."""
    found = await context.q.named_limits()
    rest = [name for name in found if query.after is None or name > query.after]
    shown = rest[: query.limit]
    uses = await asyncio.gather(*(_use(context.q, name) for name in shown))
    return LimitList(
        limits=[
            limit_view(name, found[name], use)
            for name, use in zip(shown, uses, strict=True)
        ],
        next=shown[-1] if len(rest) > len(shown) else None,
        total=len(found),
    )


@section.get("/limits/{name:path}")
async def show_limit(
    context: RequestContext, name: Name, query: LimitQuery
) -> NamedLimit:
    """
    One limit: its rule, the keys that are used, and some of its jobs.

    Keys without running and held jobs are left out; up to 500 keys are shown, those
    with the most held jobs first.
    """
    return await _detail(context, name, await _stored(context.q, name), query.jobs)


# -- changing ------------------------------------------------------------------


@section.put("/limits/{name:path}", also=(HTTPStatus.CREATED,))
async def set_limit(context: RequestContext, name: Name, body: LimitOrder) -> LimitView:
    """
    Set what a limit allows: add one (201), or change the rule of that name (200).

    It applies to each key of the limit, in all workers together, also while jobs run.
    It stays until it is set again, or a program that declares another rule starts.
    """
    rule = _rule(body)
    with input_errors("path.name"):
        check_path_name(name, what="limit")
    known = (await context.q.named_limits()).get(name)
    await context.q.set_limit(name, TaskLimit(rule))
    if known is None:
        context.status = HTTPStatus.CREATED
    stored = await _stored(context.q, name)
    return limit_view(name, stored, await _use(context.q, name))


@section.delete("/limits/{name:path}", status=HTTPStatus.NO_CONTENT)
async def clear_limit(context: RequestContext, name: Name) -> None:
    """
    Delete the rule of a limit: its jobs are no longer limited.

    One that a program declares comes back when a worker starts.
    """
    if not await context.q.clear_limit(name):
        raise _unknown(name)


# -- shared parts --------------------------------------------------------------


def _rule(order: LimitOrder) -> LimitRule:
    if (order.concurrency is None) == (order.rate is None):
        raise bad_request("give concurrency or rate; DELETE lifts the limit", "body")
    with input_errors("body.per"):
        per = milliseconds(order.per, field="per")
        if not per:
            raise ValueError("the time of a rate must be more than 0")
    with input_errors("body.burst"):
        if order.rate is None:
            # One concurrency is like any other: its time, which says nothing, too.
            return LimitRule(order.concurrency, burst=order.burst)
        return LimitRule(rate=order.rate, per=per, burst=order.burst)


async def _stored(q: Kue, name: str) -> StoredLimit:
    limit = (await q.named_limits()).get(name)
    if limit is None:
        raise _unknown(name)
    return limit


def _unknown(name: str) -> Exception:
    return not_found(f"there is no limit {name!r}")


async def _use(q: Kue, name: str) -> list[LimitUse]:
    return await q.limit_use(name, limit=MAX_KEYS)


async def _detail(
    context: RequestContext, name: str, limit: StoredLimit, most: int
) -> NamedLimit:
    """Return a limit as it is shown, without secrets."""
    hide = context.redaction
    uses = await _use(context.q, name)
    shown = [replace(use, key=hide.key(use.key)) for use in uses]
    jobs = await _jobs(context.q, name, most) if uses else []
    return NamedLimit.of(
        limit_detail(name, limit, shown),
        jobs=[_limited_job(hide.job(job), name) for job in jobs],
    )


async def _jobs(q: Kue, name: str, most: int) -> list[Job]:
    """Return the first jobs found that run, or wait, under a limit."""
    found: list[Job] = []
    for state in (State.ACTIVE, State.WAITING) if most else ():
        page = await q.store.find(
            Filter(state=state),
            scan=MAX_SCAN,
            limit=most,
            accept=lambda job: name in dict(job.limited_by) and _is_shown(job, name),
        )
        found += page.jobs
    return found


def _is_shown(job: Job, name: str) -> bool:
    """Return whether a job runs, or waits for this limit and not for another one."""
    waits = f"waits for limit {name!r}"
    reasons = (f"{waits},", f"{waits} of ", "paused")
    return job.state is State.ACTIVE or job.held.startswith(reasons)


def _limited_job(job: Job, name: str) -> LimitedJob:
    return LimitedJob.of(job, key=dict(job.limited_by)[name])
