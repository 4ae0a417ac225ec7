"""Bulk actions: one action on many jobs, in the background of the server."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from kue.client.bulk_actions import BulkResult, BulkSummary, JobGiven
from kue.client.new_job import JobId
from kue.http.auth.roles import Scope
from kue.http.framework.operations import Input, RequestContext, Section
from kue.http.framework.problem import (
    INTERNAL,
    bad_request,
    forbidden,
    input_errors,
    not_found,
    try_later,
)
from kue.http.v1.job_json import JobFilter, check_paths
from kue.http.v1.jobs import MAX_MANY
from kue.model.errors import KueError
from kue.model.job import FINAL, PROMOTABLE, UNFINISHED, State
from kue.model.view_struct import View
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.client.queue import Kue

logger = logging.getLogger(__name__)

#: How many run at once in one server.
MAX_RUNNING = 4
#: How many are remembered after they ended.
MAX_FINISHED = 100

section = Section(
    "bulk", "Retry, cancel, remove or promote many jobs.", prefix="/jobs/bulk"
)

#: Jobs by id or as they were found, up to 500 at a time.
Batches: TypeAlias = AsyncGenerator[Sequence[JobGiven], None]
#: Does something to the jobs of one batch.
Act: TypeAlias = Callable[[Sequence[JobGiven]], Awaitable[list[BulkResult]]]
BulkState: TypeAlias = Literal["running", "done", "failed", "stopped"]


class BulkAction(StrEnum):
    """What to do to many jobs."""

    RETRY = "retry"
    CANCEL = "cancel"
    REMOVE = "remove"
    PROMOTE = "promote"


#: The states in which jobs can be acted on.
STATES: Mapping[BulkAction, frozenset[State]] = {
    BulkAction.RETRY: FINAL,
    BulkAction.CANCEL: UNFINISHED,
    BulkAction.REMOVE: frozenset(set(State) - {State.ACTIVE}),
    BulkAction.PROMOTE: PROMOTABLE,
}


class BulkFilter(JobFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Selects all jobs in one state that match."""

    state: State


class BulkRequest(Input, frozen=True, kw_only=True):
    """What to do, and to which jobs: some by id, or all that match."""

    action: BulkAction
    ids: Annotated[list[JobId], Meta(min_length=1, max_length=MAX_MANY)] | None = None
    filter: BulkFilter | None = None


class BulkStarted(msgspec.Struct, frozen=True):
    """The id of an action, to query its progress."""

    id: str


class BulkStatus(View, frozen=True, kw_only=True):
    """The progress of an action."""

    id: str
    action: BulkAction
    state: BulkState
    #: Jobs processed so far: the sum of the next three.
    looked_at: int
    done: int
    #: Gone, or in a state that does not allow it.
    changed: int
    #: Left as they are: another job has taken their unique key.
    held: int
    #: Why it failed.
    error: str | None


@dataclass
class BulkTask:
    """One action, running or ended."""

    action: BulkAction
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    state: BulkState = "running"
    summary: BulkSummary = field(default_factory=BulkSummary)
    error: str | None = None
    #: Whether to stop after the current batch, so that what was done is known.
    is_stopping: bool = False

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    @property
    def status(self) -> BulkStatus:
        return BulkStatus.of(self, self.summary, looked_at=self.summary.total)

    async def run(self, batches: Batches, act: Act) -> None:
        """Do *act* to all jobs of *batches*; the status has errors."""
        try:
            async with aclosing(batches):
                async for jobs in batches:
                    if self.is_stopping:
                        self.state = "stopped"
                        return
                    self.summary = self.summary.plus(await act(jobs))
            self.state = "done"
        except asyncio.CancelledError:
            # The queue is being closed.
            self.state = "stopped"
            raise
        except KueError as exc:
            self.state, self.error = "failed", str(exc)
        except Exception:
            logger.exception("bulk %s %s failed", self.action, self.id)
            self.state, self.error = "failed", INTERNAL


class BulkTasks:
    """The actions that one server runs, and those it ran last."""

    def __init__(self) -> None:
        self._tasks: dict[str, BulkTask] = {}

    def start(self, q: Kue, action: BulkAction, batches: Batches, act: Act) -> BulkTask:
        running = sum(task.is_running for task in self._tasks.values())
        if running >= MAX_RUNNING:
            raise try_later(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{running} actions are running already; wait for one, or stop it",
            )
        task = BulkTask(action)
        self._tasks[task.id] = task
        # It ends before the store is closed.
        q._connection.background.start(
            self._run(task, batches, act), f"kue bulk {action} {task.id}"
        )
        return task

    def find(self, bulk_id: str) -> BulkTask:
        """Return an action that is running, or ended recently."""
        if bulk_id not in self._tasks:
            raise not_found(
                f"action {bulk_id!r} is not running on this server, or ended long ago"
            )
        return self._tasks[bulk_id]

    async def _run(self, task: BulkTask, batches: Batches, act: Act) -> None:
        await task.run(batches, act)
        finished = [one.id for one in self._tasks.values() if not one.is_running]
        for bulk_id in finished[:-MAX_FINISHED]:
            del self._tasks[bulk_id]


@section.post("", status=HTTPStatus.ACCEPTED)
async def start(context: RequestContext, body: BulkRequest) -> BulkStarted:
    """
    Retry, cancel, remove or promote many jobs: up to 1,000 by id, or all that match.

    It runs in the background and ends with the server.  Jobs that are added, started or
    ended after it began are left alone, unless given by id.  Removing needs the role
    admin.
    """
    if body.action is BulkAction.REMOVE and not context.user.may(Scope.ADMIN):
        raise forbidden("removing needs the role admin")
    states = _states(body)
    if body.filter is not None:
        check_paths(body.filter, context.redaction, "body.filter")
        with input_errors("body.filter.priority"):
            _ = body.filter.filter
    # Read here so that the client gets an error if the store is unavailable.
    now = await context.q.now()
    batches = (
        _named(body.ids or ())
        if body.filter is None
        else _matching(context, body.filter, now)
    )
    act = _act(context.q, body.action, states)
    return BulkStarted(_tasks(context).start(context.q, body.action, batches, act).id)


@section.get("/{bulk_id}")
async def show(context: RequestContext, bulk_id: str) -> BulkStatus:
    """The progress of an action; the server remembers the last 100 that ended."""
    return _tasks(context).find(bulk_id).status


@section.post("/{bulk_id}/stop", status=HTTPStatus.NO_CONTENT)
async def stop(context: RequestContext, bulk_id: str) -> None:
    """
    Stop an action; what it has done stays done.

    The current batch, up to 500 jobs, is finished.
    """
    _tasks(context).find(bulk_id).is_stopping = True


def _tasks(context: RequestContext) -> BulkTasks:
    bulk_tasks: BulkTasks = context.request.app.state.bulk_tasks
    return bulk_tasks


def _states(body: BulkRequest) -> frozenset[State]:
    """Return the states that jobs must be in, when their turn comes."""
    if (body.ids is None) == (body.filter is None):
        raise bad_request("give either ids or filter", "body")
    allowed = STATES[body.action]
    if body.filter is None:
        return allowed
    state = body.filter.state
    if state not in allowed:
        raise bad_request(
            f"cannot {body.action} jobs that are {state}, only those that are "
            f"{', '.join(sorted(allowed))}",
            "body.filter.state",
        )
    return frozenset({state})


def _act(q: Kue, action: BulkAction, states: frozenset[State]) -> Act:
    acts: dict[BulkAction, Act] = {
        BulkAction.RETRY: partial(q.retry_many, states=states),
        BulkAction.PROMOTE: partial(q.promote_many, states=states),
        BulkAction.CANCEL: q.cancel_many,
        BulkAction.REMOVE: partial(q.remove_many, states=states),
    }
    return acts[action]


async def _named(job_ids: Sequence[int]) -> Batches:
    ids = list(dict.fromkeys(job_ids))
    for start in range(0, len(ids), MAX_BATCH):
        yield ids[start : start + MAX_BATCH]


async def _matching(
    context: RequestContext, job_filter: BulkFilter, now: int
) -> Batches:
    """Yield jobs that match and have not moved since *now*; a batch may be empty."""
    cursor: str | None = None
    while True:
        # Descending: a job that is retried and fails again is not found twice.
        page = await context.q.store.find(
            job_filter.filter,
            limit=MAX_BATCH,
            cursor=cursor,
            descending=True,
            redact=context.redaction,
        )
        yield [job for job in page.jobs if job.updated_at <= now]
        cursor = page.cursor
        if cursor is None:
            return
