"""Error groups: failed jobs by error; ``/jobs/bulk`` retries those of one group."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.v1.stats import check_type
from kue.model.names import Name
from kue.store.values import MAX_ERRORS, Errors

section = Section("errors", "Failed jobs grouped by error.")


class ErrorsQuery(Input, frozen=True):
    """Which error groups to show, and how many."""

    type: Name | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_ERRORS)] = 50


@section.get("/errors")
async def list_errors(context: RequestContext, query: ErrorsQuery) -> Errors:
    """
    Failed jobs grouped by error, the most frequent first.

    Errors that differ only in numbers are one group.  To retry a group, retry in bulk
    the failed jobs with its type and fingerprint.
    """
    await check_type(context.q, query.type)
    found = await context.q.errors(query.type, limit=query.limit)
    hide = context.redaction.text
    return msgspec.structs.replace(
        found,
        groups=[
            msgspec.structs.replace(group, message=hide(group.message))
            for group in found.groups
        ],
    )
