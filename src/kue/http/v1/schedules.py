"""
Schedules: jobs that recur, or are added once at a given time.

A schedule may have any name; paths with names are those of `kue.http.v1.queues`.
"""

from __future__ import annotations

from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Unpack, cast

import msgspec
from msgspec.structs import replace

from kue.client.new_job import Moment, NewJob, Span, to_datetime
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import bad_request
from kue.http.v1.job_json import AddedView
from kue.http.v1.jobs import option_errors
from kue.http.v1.queues import DurationText
from kue.http.v1.stats import Moment as UnixMs
from kue.model.cron import MAX_TEXT
from kue.model.errors import BadPayload, ScheduleDeclared, ScheduleNotFound
from kue.model.job import Draft, Spec
from kue.model.names import Name
from kue.model.schedule import Missed, Overlap
from kue.model.schedule_json import (
    UPCOMING,
    ScheduleDetail,
    ScheduleView,
    schedule_detail,
    schedule_view,
)
from kue.model.schedule_options import ScheduleOptions, schedule_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kue.client.queue import Kue
    from kue.http.security.redaction import Redaction
    from kue.model.schedule import Schedule

section = Section("schedules", "Jobs that recur: list, add, change, pause and run.")

MAX_LIST = 200
#: Options of a schedule that are not options of its jobs; `at` is both.
TIMING = ("every", "cron", "at", "tz", "start", "end", "jitter", "missed", "overlap")
#: Of these, one is given.
KINDS = ("every", "cron", "at")
#: Nothing is wrong with these.
_PLAIN_JOB = Draft(type="any", spec=Spec())
_PLAIN_TIMING: ScheduleOptions = {"every": "1d"}

CronText = Annotated[str, msgspec.Meta(max_length=MAX_TEXT)]
ZoneName = Annotated[str, msgspec.Meta(max_length=100)]


class ScheduleList(msgspec.Struct, frozen=True):
    """Schedules, by name."""

    schedules: list[ScheduleView]
    #: To be given as *after* for the next page; null at the end.
    next: str | None
    #: How many there are in all, of the type that was asked for.
    total: int


class ScheduleListQuery(Input, frozen=True):
    """Which schedules, and which page of them."""

    type: Name | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIST)] = MAX_LIST
    after: Name | None = None


class NewSchedule(NewJob, frozen=True, kw_only=True):
    """
    A job, and when it is added: one of *every*, *cron* and *at* (once).

    Durations are seconds, or text such as "1h30m".
    """

    every: Span | None = None
    cron: CronText | None = None
    tz: ZoneName = "UTC"
    start: Moment | None = None
    end: Moment | None = None
    #: Fires up to this much later.
    jitter: Span = 0
    missed: Missed = "once"
    overlap: Overlap = "allow"

    @property
    def options(self) -> dict[str, Any]:
        """The options of its job."""
        given = super().options
        return {name: given[name] for name in given if name not in TIMING}


class PreviewQuery(Input, frozen=True, kw_only=True):
    """When a schedule would be due, as in a PUT; durations are text, times ms."""

    every: DurationText | None = None
    cron: CronText | None = None
    at: UnixMs | None = None
    tz: ZoneName = "UTC"
    start: UnixMs | None = None
    end: UnixMs | None = None
    jitter: DurationText | None = None
    #: The schedule that is to be changed: the same interval stays in step.
    name: Name | None = None


class SchedulePreview(msgspec.Struct, frozen=True):
    """When a schedule would be due; or why that makes no sense."""

    words: str = ""
    #: The next five times.
    upcoming: list[int] = []
    #: Empty if it makes sense; else which parameter does not, and why.
    field: str = ""
    problem: str = ""


# -- reading -------------------------------------------------------------------


@section.get("/schedules")
async def list_schedules(
    context: RequestContext, query: ScheduleListQuery
) -> ScheduleList:
    """All schedules with their last and coming times, by name; up to 200 at a time."""
    found = await context.q.schedules()
    if query.type is not None:
        found = [
            one for one in found if query.type in (one.draft.name, one.draft.queue)
        ]
    rest = [one for one in found if query.after is None or one.name > query.after]
    shown = rest[: query.limit]
    now = await context.q.now()
    return ScheduleList(
        schedules=[schedule_view(one, now=now) for one in shown],
        next=shown[-1].name if len(rest) > len(shown) else None,
        total=len(found),
    )


@section.get("/schedules/{name:path}")
async def show_schedule(context: RequestContext, name: Name) -> ScheduleDetail:
    """One schedule, with the job that it adds."""
    return await _detail(context, await context.q.get_schedule(name))


@section.get("/schedule-preview")
async def preview_schedule(
    context: RequestContext, query: PreviewQuery
) -> SchedulePreview:
    """
    When a schedule would be due, in words, and its next five times.

    Options that make no sense are not an error of this request: the result has the
    problem, and the parameter that it is about.
    """
    options = _timing(query)
    now = await context.q.now()
    stored = None if query.name is None else await _stored(context.q, query.name)
    try:
        schedule = schedule_of("preview", _PLAIN_JOB, now=now, stored=stored, **options)
    except (ValueError, TypeError) as exc:
        field = _invalid_field("preview", _PLAIN_JOB, options, now)
        return SchedulePreview(field=field.rpartition(".")[2], problem=str(exc))
    upcoming = list(schedule.upcoming(UPCOMING, since=now))
    return SchedulePreview(words=schedule.words, upcoming=upcoming)


# -- changing ------------------------------------------------------------------


@section.put("/schedules/{name:path}", also=(HTTPStatus.CREATED,))
async def set_schedule(
    context: RequestContext, name: Name, body: NewSchedule
) -> ScheduleDetail:
    """
    Add a schedule (201), or replace the one of that name (200).

    A replaced one keeps its pause, its last times and, if it is due at the same times,
    the next one.  One that is declared in code is refused (409).  Hidden values (•••)
    that are sent back as they were shown are kept.
    """
    stored = await _stored(context.q, name)
    job = _restored(body, stored, context.redaction)
    with option_errors(context.q, job.type, job.options, "body"):
        draft = context.q.draft(job.type, job.data, **job.options)
    with _schedule_errors(name, draft, _timing(body), await context.q.now()):
        schedule = await context.q.schedule(name, draft, **_timing(body))
    if stored is None:
        context.status = HTTPStatus.CREATED
    return await _detail(context, schedule)


@section.delete("/schedules/{name:path}", status=HTTPStatus.NO_CONTENT)
async def remove_schedule(context: RequestContext, name: Name) -> None:
    """
    Delete a schedule; its jobs stay.

    One that is declared in code comes back when a worker starts: pause it instead.
    """
    if not await context.q.unschedule(name):
        raise ScheduleNotFound(name)


@section.post("/schedules/{name:path}/pause")
async def pause_schedule(context: RequestContext, name: Name) -> ScheduleDetail:
    """Pause a schedule: it adds no jobs until it is resumed."""
    return await _detail(context, await context.q.pause_schedule(name))


@section.post("/schedules/{name:path}/resume")
async def resume_schedule(context: RequestContext, name: Name) -> ScheduleDetail:
    """Resume a schedule; what it missed is not made up for."""
    return await _detail(context, await context.q.resume_schedule(name))


@section.post("/schedules/{name:path}/run", status=HTTPStatus.CREATED)
async def run_schedule(context: RequestContext, name: Name) -> AddedView:
    """Add the job of a schedule now, in addition to its times; also if it is paused."""
    handle = await context.q.run_schedule(name)
    return AddedView.of(handle)


# -- shared parts --------------------------------------------------------------


async def _stored(q: Kue, name: str) -> Schedule | None:
    found = await q.store.schedules(name)
    return found[0] if found else None


async def _detail(context: RequestContext, schedule: Schedule) -> ScheduleDetail:
    """Return *schedule* as it is shown, without secrets."""
    hidden = replace(schedule, draft=context.redaction.terms(schedule.draft))
    return schedule_detail(hidden, now=await context.q.now())


def _timing(given: NewSchedule | PreviewQuery) -> ScheduleOptions:
    """Return when a schedule is due, as `Kue.schedule` takes it."""
    values = {name: getattr(given, name, None) for name in TIMING}
    options = {name: value for name, value in values.items() if value is not None}
    for name in options.keys() & {"at", "start", "end"}:
        options[name] = to_datetime(options[name])
    return cast("ScheduleOptions", options)


def _restored(
    body: NewSchedule, stored: Schedule | None, redaction: Redaction
) -> NewSchedule:
    """Return *body* with the *stored* values where it has ``•••``."""
    draft = _PLAIN_JOB if stored is None else stored.draft
    return replace(
        body,
        data=redaction.restore(body.data, draft.spec.data),
        meta=redaction.restore(cast("Any", body.meta), cast("Any", draft.spec.meta)),
        unique=redaction.restore(body.unique, draft.unique),
        limited_by=redaction.restore(
            cast("Any", body.limited_by), dict(draft.limited_by)
        ),
    )


@contextmanager
def _schedule_errors(
    name: str, draft: Draft, options: ScheduleOptions, now: int
) -> Iterator[None]:
    """Turn errors of a schedule into a 400 about what makes no sense."""
    try:
        yield
    except ScheduleDeclared:
        raise
    except BadPayload as exc:
        raise bad_request(str(exc), f"body.{exc.field}") from exc
    except (ValueError, TypeError) as exc:
        raise bad_request(str(exc), _invalid_field(name, draft, options, now)) from exc


def _invalid_field(name: str, draft: Draft, options: ScheduleOptions, now: int) -> str:
    """Return the first option that makes no sense with those before it."""
    if not _makes_sense(name, _PLAIN_JOB, now, **_PLAIN_TIMING):
        return "path.name"
    if not _makes_sense(name, draft, now, **_PLAIN_TIMING):
        return "body"
    given = cast("dict[str, Any]", options)
    tried = {kind: given[kind] for kind in KINDS if kind in given}
    if not _makes_sense(name, draft, now, **cast("ScheduleOptions", tried)):
        return f"body.{next(iter(tried))}" if len(tried) == 1 else "body"
    for field, value in given.items():
        tried[field] = value
        if not _makes_sense(name, draft, now, **cast("ScheduleOptions", tried)):
            return f"body.{field}"
    return "body"


def _makes_sense(
    name: str, draft: Draft, now: int, **options: Unpack[ScheduleOptions]
) -> bool:
    try:
        schedule_of(name, draft, now=now, **options)
    except (ValueError, TypeError):
        return False
    return True
