"""What jobs failed of, counted by error, and a way to retry all that failed of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from kue.failures import ErrorGroup, Tally, shape
from kue.http.section import Call, Section
from kue.http.v1.stats import TypeName, check_type
from kue.job import State
from kue.selection import Selection
from kue.store.values import MAX_BATCH
from kue.sweeping import Swept

if TYPE_CHECKING:
    from kue.http.redaction import Redaction
    from kue.job import Job

section = Section("errors", "What jobs failed of.")

MAX_GROUPS = 200
#: Failed jobs looked at for one answer, the newest first.
MAX_LOOKED = 10_000
#: Characters of an error's kind and of its message.
MAX_KIND, MAX_MESSAGE = 500, 10_000


class ErrorsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose errors, and how many of them."""

    type: TypeName | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_GROUPS)] = 50


class ErrorGroups(msgspec.Struct, frozen=True):
    """Failed jobs by error, the most frequent first."""

    groups: list[ErrorGroup]
    #: How many groups were found; more than the limit are not shown.
    total: int
    #: How many failed jobs were looked at.
    looked_at: int
    #: Whether those are all there are; else they are the newest.
    is_all: bool


class RetryOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A group of errors, in its own words; without a message, all of that kind."""

    type: TypeName
    kind: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_KIND)]
    message: Annotated[str, msgspec.Meta(max_length=MAX_MESSAGE)] | None = None


class Retried(msgspec.Struct, frozen=True):
    """What became of the jobs of a group."""

    retried: int
    #: Removed, or in another state by the time we came to them.
    changed: int
    #: Left as they are: another job has taken their unique key.
    held: int


@section.get("/errors")
async def list_errors(call: Call, query: ErrorsQuery) -> ErrorGroups:
    """
    Failed jobs grouped by error; those that differ only in numbers are one.

    Looks at the newest 10,000 failed jobs, and says whether those were all.
    """
    if query.type is not None:
        await check_type(call.q, query.type)
    tally = Tally()
    cursor: str | None = None
    while tally.jobs < MAX_LOOKED:
        page = await call.q.page(
            State.FAILED, query.type, limit=MAX_BATCH, cursor=cursor, descending=True
        )
        for job in page.jobs:
            tally.count(job)
        cursor = page.cursor
        if cursor is None:
            break
    groups = tally.groups()
    return ErrorGroups(
        groups=[_hidden(group, call.redaction) for group in groups[: query.limit]],
        total=len(groups),
        looked_at=tally.jobs,
        is_all=cursor is None,
    )


@section.post("/errors/retry")
async def retry_errors(call: Call, body: RetryOrder) -> Retried:
    """
    Put all failed jobs of one group back in line; their attempts count from nothing.

    Give type, kind and message as the group has them; numbers in the message do not
    matter.  One that fails again meanwhile is not retried a second time.
    """
    q = call.q
    await check_type(q, body.type)
    # What fails from now on lies ahead of us, where we would come past it again.
    wanted = Selection(type=body.type, until=await q.now() + 1)
    swept = Swept()
    async for jobs in q.ended(wanted):
        ids = [job.id for job in jobs if _is_meant(job, body, call.redaction)]
        swept = swept.plus(await q.retry_many(ids, states={State.FAILED}))
    return Retried(retried=swept.done, changed=swept.changed, held=swept.held)


def _hidden(group: ErrorGroup, redaction: Redaction) -> ErrorGroup:
    return msgspec.structs.replace(group, message=redaction.text(group.message))


def _is_meant(job: Job, order: RetryOrder, redaction: Redaction) -> bool:
    # Asked of the tally, so that a group has the same jobs here as where it is shown.
    tally = Tally()
    tally.count(job)
    [group] = [_hidden(one, redaction) for one in tally.groups()]
    return group.kind == order.kind and (
        order.message is None or shape(group.message) == shape(order.message)
    )
