"""What can be done to one job: retry, copy, promote, prioritise, reschedule, cancel."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta
from msgspec.structs import replace

from kue.http.framework.operations import RequestContext, Section
from kue.http.framework.problem import Refused, given
from kue.http.v1 import job_json
from kue.http.v1.job_json import AddedView, JobId
from kue.http.v1.jobs import blaming, job_of, update
from kue.model.errors import InvalidTransition
from kue.model.job import Draft, State
from kue.model.payload import encode

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.model.job import Job
    from kue.model.payload import JSON

#: Characters of the reason for a cancellation.
MAX_REASON = 500

section = Section(
    "actions", "Retry, copy, hurry, delay and cancel a job.", prefix="/jobs/{job_id}"
)


class NewData(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Other data for a job; left out, it keeps what it has."""

    data: Any = UNSET


class RetryRequest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """Which ending of a job is retried, and with what."""

    #: Other data; left out, it keeps what it has.
    data: Any = UNSET
    #: When it ended, as the job shows it.  One that was retried since is left alone.
    ended_at: int | None = None


class NewPriority(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which jobs of its type a job runs before."""

    priority: job_json.Priority


class NewTime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a job is due: one of the two."""

    delay: job_json.Span | None = None
    at: job_json.Moment | None = None


class Reason(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why a job is cancelled; kept with it."""

    reason: Annotated[str, Meta(max_length=MAX_REASON)] = ""


class Cancellation(msgspec.Struct, frozen=True):
    """What became of a job that was to be cancelled."""

    #: False while it runs: its worker was asked to end it.
    ended: bool


@section.post("/retry", status=HTTPStatus.NO_CONTENT)
async def retry(call: RequestContext, job_id: JobId, body: RetryRequest | None) -> None:
    """
    Put an ended job back in line, with other data if the body has some.

    Its attempts count from nothing.  With ended_at, the answer to the second of two who
    retry what both of them see is the same, and the job does not run twice.
    """
    body = body or RetryRequest()
    handle = await call.q.get(job_id)
    job = job_of(handle)
    if body.ended_at not in (None, job.ended_at):
        if body.data is not UNSET:
            raise InvalidTransition(
                job_id,
                job.state,
                "be retried with other data: it was retried since it ended then",
            )
        return
    if body.data is not UNSET:
        data = call.redaction.restore(body.data, job.data)
        with blaming(call.q, handle.type, {}, "body"):
            await handle.retry(data=data)
    else:
        await handle.retry()


@section.post("/copy", status=HTTPStatus.CREATED)
async def copy(call: RequestContext, job_id: JobId, body: NewData | None) -> AddedView:
    """
    Add a job like this one, with other data if the body has some.

    It has the same options, the unique key among them: while that is held the answer is
    the holder.  The copy of a delayed job is due when that one is; the copy of a
    blocked job waits for the same jobs.
    """
    job = job_of(await call.q.get(job_id))
    data = job.data
    if body is not None and body.data is not UNSET:
        data = call.redaction.restore(body.data, job.data)
    with blaming(call.q, job.type, {}, "body"):
        draft = _copied(call.q, job, data)
    [handle] = await call.q.enqueue_many([draft])
    return AddedView(handle.id, handle.is_new)


@section.post("/promote", status=HTTPStatus.NO_CONTENT)
async def promote(call: RequestContext, job_id: JobId) -> None:
    """Let a job that is delayed or waits for others run now."""
    handle = await call.q.get(job_id)
    await handle.promote()


@section.post("/priority", status=HTTPStatus.NO_CONTENT)
async def prioritise(call: RequestContext, job_id: JobId, body: NewPriority) -> None:
    """Let a job run sooner or later than others of its type."""
    handle = await call.q.get(job_id)
    await update(call.q, handle, {"priority": body.priority})


@section.post("/reschedule", status=HTTPStatus.NO_CONTENT)
async def reschedule(call: RequestContext, job_id: JobId, body: NewTime) -> None:
    """
    Let a job run no sooner than after a delay, or at a moment.

    One that has ended starts anew then; one that runs is refused.
    """
    if (body.delay is None) == (body.at is None):
        raise Refused(HTTPStatus.BAD_REQUEST, "give one of delay and at", field="body")
    handle = await call.q.get(job_id)
    if body.at is not None:
        await handle.delay(job_json.moment(body.at))
    elif body.delay is not None:
        with given("body.delay"):
            await handle.delay(body.delay)


@section.post("/cancel")
async def cancel(
    call: RequestContext, job_id: JobId, body: Reason | None
) -> Cancellation:
    """
    Cancel a job that has not ended.

    The worker of one that runs is asked to end it, and does so within seconds.
    """
    handle = await call.q.get(job_id)
    reason = "" if body is None else body.reason
    return Cancellation(ended=await handle.cancel(reason))


def _copied(q: Kue, job: Job, data: JSON) -> Draft:
    # Jobs that an earlier job waited for may be gone, which would cancel the copy.
    after = job.spec.after if job.state is State.BLOCKED else ()
    encoded = encode(data, field="data", limit=q.settings.max_data)
    return Draft(
        type=job.type,
        spec=replace(job.spec, data=encoded, after=after, address_id=None),
        priority=job.priority,
        at=job.promote_at if job.state is State.DELAYED else None,
        unique=job.unique,
        unique_for=job.unique_for,
        group=job.group,
        ttl=job.ttl,
        expires=job.expires,
        once=job.once,
        after_any=job.after_any,
    )
