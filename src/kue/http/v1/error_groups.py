"""What jobs failed of, counted by error; ``/jobs/bulk`` retries all of one."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kue.http.framework.operations import RequestContext, Section
from kue.http.v1.stats import TypeName, check_type
from kue.store.values import MAX_ERRORS, Errors

section = Section("errors", "What jobs failed of.")


class ErrorsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose errors, and how many of them."""

    type: TypeName | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_ERRORS)] = 50


@section.get("/errors")
async def list_errors(call: RequestContext, query: ErrorsQuery) -> Errors:
    """
    Failed jobs by error, the most frequent first; those that differ in numbers are one.

    To retry all of one, retry in bulk what is failed and has its type and fingerprint.
    """
    if query.type is not None:
        await check_type(call.q, query.type)
    found = await call.q.errors(query.type, limit=query.limit)
    hide = call.redaction.text
    return msgspec.structs.replace(
        found,
        groups=[
            msgspec.structs.replace(group, message=hide(group.message))
            for group in found.groups
        ],
    )
