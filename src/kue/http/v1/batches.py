"""Batches: list them with their progress, cancel them, retry their failed jobs."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from kue.client.batch_handle import BatchProgress  # noqa: TC001 - operations read annotations
from kue.client.batch_queries import BatchPage  # noqa: TC001 - operations read annotations
from kue.client.new_job import JobId  # noqa: TC001 - operations read annotations
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import not_found
from kue.http.v1.job_actions import Reason
from kue.http.v1.job_json import MAX_PAGE

if TYPE_CHECKING:
    from kue.client.batch_handle import BatchHandle

section = Section("batches", "Many jobs with one progress.", prefix="/batches")


class BatchesQuery(Input, frozen=True, kw_only=True):
    """Which batches to show."""

    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE)] = 50
    #: The one of the previous page.
    cursor: Annotated[str, Meta(pattern=r"^-?[0-9]{1,16}:[0-9]{1,16}$")] | None = None


class BatchRetried(msgspec.Struct, frozen=True):
    """The result of retrying a batch."""

    retried: int


@section.get("", is_list=True)
async def find(context: RequestContext, query: BatchesQuery) -> BatchPage:
    """Batches with their progress, the newest first."""
    return await context.q.batches(limit=query.limit, cursor=query.cursor)


@section.get("/{batch_id}")
async def show(context: RequestContext, batch_id: JobId) -> BatchProgress:
    """How many jobs a batch has, and how they ended so far."""
    return await (await _batch(context, batch_id)).progress()


@section.post("/{batch_id}/cancel", status=HTTPStatus.NO_CONTENT)
async def cancel(context: RequestContext, batch_id: JobId, body: Reason | None) -> None:
    """Cancel the jobs of a batch that have not started; those that run go on."""
    await (await _batch(context, batch_id)).cancel((body or Reason()).reason)


@section.post("/{batch_id}/retry")
async def retry(context: RequestContext, batch_id: JobId) -> BatchRetried:
    """
    Run the jobs of a batch again that failed or were cancelled.

    The batch ends again once they have.
    """
    return BatchRetried(await (await _batch(context, batch_id)).retry_failed())


async def _batch(context: RequestContext, batch_id: int) -> BatchHandle:
    """Return a batch; raises `Refused` if the id is that of another job."""
    handle = context.q.batch(batch_id)
    try:
        await handle.progress()
    except ValueError as exc:
        raise not_found(str(exc)) from exc
    return handle
