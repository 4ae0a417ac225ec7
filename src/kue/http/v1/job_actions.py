"""Actions on one job: retry, copy, promote, reschedule, cancel, signals."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta
from msgspec.structs import replace

from kue.client.handle import job_of
from kue.client.new_job import JobId, Moment, Span, to_datetime
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import bad_request, input_errors
from kue.http.v1.job_json import AddedView
from kue.http.v1.jobs import option_errors, update
from kue.model.errors import InvalidTransition
from kue.model.job import Draft, JobTerms, State
from kue.model.names import Name
from kue.model.payload import encode
from kue.model.sealed_payload import readable
from kue.store.values import Priority

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.model.job import Job
    from kue.model.payload import JSON

#: Characters of the reason for a cancellation.
MAX_REASON = 500

section = Section(
    "actions",
    "Retry, copy, promote, prioritise, delay and cancel a job; send it signals.",
    prefix="/jobs/{job_id}",
)


class NewData(Input, frozen=True):
    """New data for a job; if omitted, it keeps what it has."""

    data: Any = UNSET


class RetryRequest(NewData, frozen=True, kw_only=True):
    """Which outcome of a job to retry, and with which data."""

    #: When it ended, as the job shows it.  A job retried since is left alone.
    ended_at: int | None = None


class NewPriority(Input, frozen=True):
    """The new priority of a job."""

    priority: Priority


class NewTime(Input, frozen=True, kw_only=True):
    """When a job is due: after a delay or at a time."""

    delay: Span | None = None
    at: Moment | None = None


class Reason(Input, frozen=True):
    """Why a job is cancelled; stored with it."""

    reason: Annotated[str, Meta(max_length=MAX_REASON)] = ""


class NewSignal(Input, frozen=True, kw_only=True):
    """A signal for a job."""

    name: Name
    #: What the wait for it returns; any JSON of up to 64 KiB.
    data: Any = None


class Cancellation(msgspec.Struct, frozen=True):
    """The result of cancelling a job."""

    #: False while it runs: its worker was asked to stop it.
    ended: bool


@section.post("/retry", status=HTTPStatus.NO_CONTENT)
async def retry(
    context: RequestContext, job_id: JobId, body: RetryRequest | None
) -> None:
    """
    Retry an ended job: it is requeued, with new data if the body has some.

    Its attempts count from zero.  A failed or cancelled job keeps the durable steps it
    finished, a complete one begins afresh.  With ended_at the request is idempotent: if
    two clients retry the same outcome, both succeed and the job does not run twice.
    """
    body = body or RetryRequest()
    handle = await context.q.get(job_id)
    job = job_of(handle)
    if body.ended_at not in (None, job.ended_at):
        if body.data is not UNSET:
            raise InvalidTransition(
                job_id,
                job.state,
                "be retried with other data: it was retried after that",
            )
        return
    if body.data is not UNSET:
        data = context.redaction.restore(body.data, job.data)
        with option_errors(context.q, handle.type, {}, "body"):
            await handle.retry(data=data)
    else:
        await handle.retry()


@section.post("/copy", status=HTTPStatus.CREATED)
async def copy(
    context: RequestContext, job_id: JobId, body: NewData | None
) -> AddedView:
    """
    Add a copy of a job, with new data if the body has some.

    It has the same options, including the unique key: while a job holds that, the
    result is that job.  The copy of a delayed job is due at the same time; the copy of
    a blocked job waits for the same jobs.

    When as many jobs of the type wait as its cap allows, the answer is a 429.
    """
    job = job_of(await context.q.get(job_id))
    data = readable(job.data, f"the data of job {job_id}")
    if body is not None and body.data is not UNSET:
        data = context.redaction.restore(body.data, job.data)
    with option_errors(context.q, job.type, {}, "body"):
        draft = _copied(context.q, job, data)
    [handle] = await context.q.enqueue_many([draft])
    return AddedView.of(handle)


@section.post("/promote", status=HTTPStatus.NO_CONTENT)
async def promote(context: RequestContext, job_id: JobId) -> None:
    """Promote a delayed or blocked job, so that it runs now."""
    handle = await context.q.get(job_id)
    await handle.promote()


@section.post("/priority", status=HTTPStatus.NO_CONTENT)
async def prioritise(context: RequestContext, job_id: JobId, body: NewPriority) -> None:
    """Change the priority of a job among those of its type."""
    handle = await context.q.get(job_id)
    await update(context.q, handle, {"priority": body.priority})


@section.post("/reschedule", status=HTTPStatus.NO_CONTENT)
async def reschedule(context: RequestContext, job_id: JobId, body: NewTime) -> None:
    """
    Reschedule a job: it runs no sooner than after a delay, or at a time.

    A job that has ended starts again then; a running job is refused.
    """
    if (body.delay is None) == (body.at is None):
        raise bad_request("give either delay or at", "body")
    handle = await context.q.get(job_id)
    if body.at is not None:
        await handle.delay(to_datetime(body.at))
    elif body.delay is not None:
        with input_errors("body.delay"):
            await handle.delay(body.delay)


@section.post("/cancel")
async def cancel(
    context: RequestContext, job_id: JobId, body: Reason | None
) -> Cancellation:
    """
    Cancel a job that has not ended.

    The worker of a running job is asked to stop it, and does so within seconds.
    """
    handle = await context.q.get(job_id)
    return Cancellation(ended=await handle.cancel((body or Reason()).reason))


@section.post("/signals", status=HTTPStatus.NO_CONTENT)
async def signal(context: RequestContext, job_id: JobId, body: NewSignal) -> None:
    """
    Send a signal to a job: the wait for it in its handler returns the data.

    It is kept until the job waits for it; a job that waits goes on at once.  A job that
    has ended is refused.
    """
    handle = await context.q.get(job_id)
    with input_errors("body.name"):
        await handle.signal(body.name, body.data)


def _copied(q: Kue, job: Job, data: JSON) -> Draft:
    # Jobs that an earlier job waited for may be gone, which would cancel the copy.
    is_needed = job.state is State.BLOCKED or job.spec.inputs
    after = job.spec.after if is_needed else ()
    encoded = encode(data, field="data", limit=q.settings.max_data)
    same = {name: getattr(job, name) for name in JobTerms.__struct_fields__}
    spec = replace(job.spec, data=encoded, after=after, address_id=None)
    at = job.promote_at if job.state is State.DELAYED else None
    return Draft(**same | {"spec": spec, "at": at, "flow": None})
