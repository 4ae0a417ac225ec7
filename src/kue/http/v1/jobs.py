"""Jobs: find, add, show, change and remove them."""

from __future__ import annotations

from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from kue.client.handle import job_of
from kue.client.new_job import JobId, NewJob, Tags, invalid_option
from kue.client.stuck_jobs import failed_parents_of
from kue.http.auth.roles import Scope
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import bad_request, input_errors
from kue.http.v1 import job_json
from kue.http.v1.job_json import (
    MAX_PAGE,
    AddedView,
    JobPage,
    JobsQuery,
    Log,
    LogLineView,
    ShownJob,
)
from kue.model.errors import BadPayload, JobNotFound
from kue.model.job_json import AttemptView, JobDetail, job_detail, job_view
from kue.model.names import check_name
from kue.model.options import AttemptsGiven
from kue.model.step_json import StepsView, steps_view
from kue.model.steps import JobSteps
from kue.store.values import MAX_LOG_LINES, Filter, Priority

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kue.client.handle import JobHandle
    from kue.client.queue import Kue
    from kue.model.job import Job

#: The most jobs that one request selects by id or adds.
MAX_MANY = 1_000
#: Jobs that a search looks at for one response, so that it comes within a second.
MAX_SCAN = 10_000
IDEMPOTENCY_KEY = "idempotency-key"
#: How long an idempotency key is remembered.
IDEMPOTENT_FOR = "24h"

section = Section("jobs", "Find, add, show, change and remove jobs.", prefix="/jobs")


class JobEdit(Input, frozen=True, kw_only=True):
    """Changes to a job; omitted fields stay as they are."""

    data: Any = UNSET
    priority: Priority | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET
    attempts: AttemptsGiven | UnsetType = UNSET


class LogQuery(Input, frozen=True, kw_only=True):
    """Which lines to show."""

    #: Counted from the oldest line that is kept.
    start: Annotated[int, Meta(ge=0, le=MAX_LOG_LINES)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 100


@section.get("", is_list=True)
async def find(context: RequestContext, query: JobsQuery) -> JobPage:
    """
    Find jobs, page by page, the newest first.

    Jobs of one state come in its own order: waiting ones by priority, delayed ones by
    when they are due, ended ones by when they ended.  A page ends at about 8 MiB,
    however few jobs those are; the last page has no cursor.

    text is words, all of which must be in the data, the last error or the newest 100
    lines of the log, in any order; "two words" in quotes are a phrase.  error is the
    same, in the last error alone.

    A search looks at no more than 10,000 jobs per request: a page may be short,
    even empty, and still have a cursor.  looked_at and total tell how far it is.

    A few lists are served at a time; a request that has waited 10 s for its turn gets a
    429 with Retry-After.

    Values in the data are matched by path, such as data.user.id=42, up to ten times: as
    JSON if the value is valid JSON, else as text.
    """
    hide, q = context.redaction, context.q
    job_json.check_paths(query, hide, "query")
    with input_errors("query.priority"):
        wanted = query.filter
    where: dict[str, Any] = {
        "limit": query.limit,
        "cursor": query.cursor,
        "descending": query.order == "desc",
    }
    # The store has indexes for states and types; for other filters it reads jobs.
    if wanted == Filter(state=wanted.state, type=wanted.type):
        page = await q.page(query.state, query.type, **where)
        return JobPage([job_view(hide.job(job)) for job in page.jobs], page.cursor)
    # Hidden values affect neither what is found nor where the page ends.
    page = await q.store.find(wanted, scan=MAX_SCAN, redact=hide, **where)
    counts = await q.counts(wanted.type)
    total = counts[wanted.state] if wanted.state else sum(counts.values())
    found = [job_view(hide.job(job)) for job in page.jobs]
    return JobPage(found, page.cursor, page.looked_at, total)


@section.post("", scope=Scope.ENQUEUE, status=HTTPStatus.CREATED)
async def add(context: RequestContext, body: NewJob) -> AddedView:
    """
    Add a job.

    The header Idempotency-Key makes it safe to repeat the request: it is the job's
    unique key, unless the body has one.  For 24 hours, or for unique_for if given, and
    in any case until the job has ended, the same key returns the same job of the type.

    With on_conflict "reject", a job whose unique key is held gets a 409.

    When as many jobs of its type wait as the cap allows, the answer is a 429 with
    Retry-After: at once, or after full_timeout if adds to the type wait for room.
    """
    job = _keyed(body, context.request.headers.get(IDEMPOTENCY_KEY))
    options = job.options
    with option_errors(context.q, job.type, options, "body"):
        handle = await context.q.enqueue(job.type, job.data, **options)
    return AddedView.of(handle)


@section.post("/batch", scope=Scope.ENQUEUE, status=HTTPStatus.CREATED)
async def add_many(
    context: RequestContext, body: Annotated[list[NewJob], Meta(max_length=MAX_MANY)]
) -> list[AddedView]:
    """
    Add up to 1,000 jobs; the results are in the order given.

    All are checked before any is added.  They are stored in batches of up to 500 jobs
    and about 1 MiB, each of them atomically.  To make the request safe to repeat, give
    each job a unique key.  A job whose key is held is not added, also with on_conflict
    "reject": is_new is false, and the others are added.

    When as many jobs of a type wait as its cap allows, the jobs that fit are added, and
    the answer is a 429 with Retry-After, whose detail has their number.
    """
    if IDEMPOTENCY_KEY in context.request.headers:
        raise bad_request(
            "one key cannot identify many jobs; give each its own unique",
            f"header.{IDEMPOTENCY_KEY}",
        )
    drafts = []
    for number, job in enumerate(body):
        options = job.options
        with option_errors(context.q, job.type, options, f"body[{number}]"):
            drafts.append(context.q.draft(job.type, job.data, **options))
    handles = await context.q.enqueue_many(drafts)
    return [AddedView.of(handle) for handle in handles]


@section.get("/{job_id}")
async def show(context: RequestContext, job_id: JobId) -> ShownJob:
    """One job, with everything about it."""
    job = job_of(await context.q.get(job_id))
    failed = await failed_parents_of(context.q.store, job)
    detail = msgspec.structs.asdict(_detail(context, job))
    return ShownJob(**detail, failed_parents=[one.id for one in failed])


@section.patch("/{job_id}")
async def edit(context: RequestContext, job_id: JobId, body: JobEdit) -> JobDetail:
    """
    Change data, priority, tags or attempts of a job, whatever its state.

    A run in progress keeps the data it started with.  Hidden values (•••) that are sent
    back as they were shown are kept.
    """
    changes = msgspec.to_builtins(body)
    if not changes:
        raise bad_request(
            "say what to change: data, priority, tags or attempts", "body"
        )
    handle = await context.q.get(job_id)
    if "data" in changes:
        kept = job_of(handle).data
        changes["data"] = context.redaction.restore(changes["data"], kept)
    await update(context.q, handle, changes)
    return _detail(context, await handle.refresh())


@section.delete("/{job_id}", scope=Scope.ADMIN, status=HTTPStatus.NO_CONTENT)
async def remove(context: RequestContext, job_id: JobId) -> None:
    """
    Delete a job with its log, permanently.

    A running job is refused: cancel it first.
    """
    [answer] = await context.q.remove_many([job_id])
    if answer.error is not None:
        raise answer.error


@section.get("/{job_id}/logs")
async def logs(context: RequestContext, job_id: JobId, query: LogQuery) -> Log:
    """The log of a job; the newest 1,000 lines are kept."""
    # One line more than is shown, to know whether there are more.
    last = query.start + query.limit
    lines = await context.q.logs(job_id, query.start, last)
    # A missing job has no lines either.
    if not lines and not await context.q.exists(job_id):
        raise JobNotFound(job_id)
    hide = context.redaction.text
    shown = [
        LogLineView.of(line, text=hide(line.text), at=line.at or None)
        for line in lines[: query.limit]
    ]
    return Log(shown, last if len(lines) > query.limit else None)


@section.get("/{job_id}/attempts")
async def attempts(context: RequestContext, job_id: JobId) -> list[AttemptView]:
    """How a job's runs ended, and what was done to it; the newest 20 are kept."""
    job = job_of(await context.q.get(job_id))
    return _detail(context, job).history


@section.get("/{job_id}/steps")
async def steps(context: RequestContext, job_id: JobId) -> StepsView:
    """
    Durable steps of a job: what it did, what it waits for, and its signals.

    They are kept until the job is removed, or runs again after it completed.
    """
    found, hide = await context.q.steps(job_id), context.redaction.hide
    # A missing job has no steps either.
    if found == JobSteps() and not await context.q.exists(job_id):
        raise JobNotFound(job_id)
    shown = JobSteps(
        tuple(replace(step, result=hide(step.result)) for step in found.steps),
        tuple(replace(one, data=hide(one.data)) for one in found.signals),
    )
    return steps_view(shown, await context.q.now())


def _detail(context: RequestContext, job: Job) -> JobDetail:
    return job_detail(context.redaction.job(job))


async def update(q: Kue, handle: JobHandle[Any], changes: dict[str, Any]) -> None:
    """Change a job; invalid values are reported as errors of the body."""
    options = {name: value for name, value in changes.items() if name != "data"}
    with option_errors(q, handle.type, options, "body"):
        await handle.update(**changes)


@contextmanager
def option_errors(
    q: Kue, type: str, options: Mapping[str, Any], location: str
) -> Iterator[None]:
    """Turn errors of a draft into a 400 about the invalid option in *location*."""
    try:
        yield
    except BadPayload as exc:
        raise bad_request(str(exc), f"{location}.{exc.field}") from exc
    except (ValueError, TypeError) as exc:
        name, why = invalid_option(q, type, options)
        raise bad_request(why, f"{location}.{name}") from exc


def _keyed(job: NewJob, key: str | None) -> NewJob:
    """Return *job* with the idempotency key, if there is one, as its unique key."""
    if key is None or job.unique is not None or job.throttle or job.debounce:
        return job
    with input_errors(f"header.{IDEMPOTENCY_KEY}"):
        check_name(key, what=IDEMPOTENCY_KEY)
    length = job.unique_for or IDEMPOTENT_FOR
    return msgspec.structs.replace(job, unique=key, unique_for=length)
