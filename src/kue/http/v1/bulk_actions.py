"""One action on many jobs, in the background of the server that was asked."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from enum import StrEnum
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from kue.client.bulk_actions import BulkResult, BulkSummary, JobGiven
from kue.http.auth.access import Scope
from kue.http.framework.operations import RequestContext, Section
from kue.http.framework.problem import RETRY_AFTER, Refused, given
from kue.http.v1.job_json import JobFilter, JobId, check_paths, found_openly
from kue.http.v1.jobs import MAX_MANY
from kue.model.errors import KueError
from kue.model.job import FINAL, PROMOTABLE, UNFINISHED, State
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kue.client.queue import Kue

logger = logging.getLogger(__name__)

#: How many run at once in one server.
MAX_RUNNING = 4
#: How many are remembered once they are over.
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
    """What is done to many jobs."""

    RETRY = "retry"
    CANCEL = "cancel"
    REMOVE = "remove"
    PROMOTE = "promote"


#: The states in which jobs can be acted on.
STATES: Mapping[BulkAction, frozenset[State]] = MappingProxyType(
    {
        BulkAction.RETRY: FINAL,
        BulkAction.CANCEL: UNFINISHED,
        BulkAction.REMOVE: frozenset(set(State) - {State.ACTIVE}),
        BulkAction.PROMOTE: PROMOTABLE,
    }
)


class BulkFilter(JobFilter, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which jobs are meant: all in one state that match."""

    state: State


class BulkRequest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """What to do, and to which jobs: those named or those that match."""

    action: BulkAction
    ids: Annotated[list[JobId], Meta(min_length=1, max_length=MAX_MANY)] | None = None
    filter: BulkFilter | None = None


class BulkStarted(msgspec.Struct, frozen=True):
    """What to ask by how far it is."""

    id: str


class BulkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How far an action is."""

    id: str
    action: BulkAction
    state: BulkState
    #: Jobs that were come to so far: the sum of the next three.
    looked_at: int
    done: int
    #: Gone, or in a state that does not allow it.
    changed: int
    #: Left as they are: another job has taken their unique key.
    held: int
    #: Why it failed.
    error: str | None


class BulkTask:
    """One action: under way, or over."""

    def __init__(self, action: BulkAction) -> None:
        self.id = secrets.token_hex(8)
        self._action = action
        self._state: BulkState = "running"
        self._swept = BulkSummary()
        self._error: str | None = None
        self._is_stopping = False

    @property
    def is_running(self) -> bool:
        return self._state == "running"

    @property
    def status(self) -> BulkStatus:
        return BulkStatus(
            id=self.id,
            action=self._action,
            state=self._state,
            looked_at=self._swept.total,
            done=self._swept.done,
            changed=self._swept.changed,
            held=self._swept.held,
            error=self._error,
        )

    def stop(self) -> None:
        """Do no more once the batch in hand is done, so that what was done is known."""
        self._is_stopping = True

    async def run(self, batches: Batches, act: Act) -> None:
        """Do *act* to all jobs of *batches*; what goes wrong is told by the status."""
        try:
            await self._run(batches, act)
        except asyncio.CancelledError:
            # The queue is being closed.
            self._state = "stopped"
            raise
        except KueError as exc:
            self._state, self._error = "failed", str(exc)
        except Exception:
            logger.exception("bulk %s %s failed", self._action, self.id)
            self._state = "failed"
            self._error = "something went wrong here; the server's log has more"

    async def _run(self, batches: Batches, act: Act) -> None:
        async with aclosing(batches):
            async for jobs in batches:
                if self._is_stopping:
                    self._state = "stopped"
                    return
                self._swept = self._swept.plus(await act(jobs))
        self._state = "done"


class BulkTasks:
    """The actions that one server runs, and those it ran last."""

    def __init__(self) -> None:
        self._known: dict[str, BulkTask] = {}

    def start(self, q: Kue, action: BulkAction, batches: Batches, act: Act) -> BulkTask:
        """
        Begin an action.

        Raises:
            Refused: As many as may run at once do so.
        """
        running = sum(bulk.is_running for bulk in self._known.values())
        if running >= MAX_RUNNING:
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{running} actions run already; wait for one of them, or stop it",
                headers={"Retry-After": RETRY_AFTER},
            )
        bulk = BulkTask(action)
        self._known[bulk.id] = bulk
        # It ends before the store is closed.
        q._connection.background.start(
            self._run(bulk, batches, act), f"kue bulk {action} {bulk.id}"
        )
        return bulk

    def find(self, bulk_id: str) -> BulkTask:
        """
        Return an action that runs, or ended not long ago.

        Raises:
            Refused: There is none.
        """
        bulk = self._known.get(bulk_id)
        if bulk is None:
            raise Refused(
                HTTPStatus.NOT_FOUND,
                f"this server runs no action {bulk_id!r} and remembers none",
            )
        return bulk

    async def _run(self, bulk: BulkTask, batches: Batches, act: Act) -> None:
        await bulk.run(batches, act)
        finished = [one.id for one in self._known.values() if not one.is_running]
        for bulk_id in finished[:-MAX_FINISHED]:
            del self._known[bulk_id]


@section.post("", status=HTTPStatus.ACCEPTED)
async def start(call: RequestContext, body: BulkRequest) -> BulkStarted:
    """
    Retry, cancel, remove or promote many jobs: up to 1,000 named, or all that match.

    It runs in the background and ends with the server.  What is added, started or ended
    after it began is left alone, unless it was named.  Removing takes the role admin.
    """
    if body.action is BulkAction.REMOVE and not call.user.may(Scope.ADMIN):
        raise Refused(HTTPStatus.FORBIDDEN, "removing takes the role admin")
    states = _states(body)
    if body.filter is not None:
        check_paths(body.filter, call.redaction, "body.filter")
        with given("body.filter.priority"):
            _ = body.filter.wanted
    # Asked here so that whoever asks hears of a store that is away.
    now = await call.q.now()
    batches = (
        _named(body.ids or ())
        if body.filter is None
        else _matching(call, body.filter, now)
    )
    act = _act(call.q, body.action, states)
    return BulkStarted(_bulks(call).start(call.q, body.action, batches, act).id)


@section.get("/{bulk_id}")
async def show(call: RequestContext, bulk_id: str) -> BulkStatus:
    """How far an action is; the server remembers the last 100 that ended."""
    return _bulks(call).find(bulk_id).status


@section.delete("/{bulk_id}", status=HTTPStatus.NO_CONTENT)
async def stop(call: RequestContext, bulk_id: str) -> None:
    """
    Stop an action; what it has done stays done.

    The batch in hand is finished, up to 500 jobs.
    """
    _bulks(call).find(bulk_id).stop()


def _bulks(call: RequestContext) -> BulkTasks:
    """Return those of the application that was asked."""
    state = call.request.app.state
    if not hasattr(state, "bulks"):
        state.bulks = BulkTasks()
    bulks: BulkTasks = state.bulks
    return bulks


def _states(body: BulkRequest) -> frozenset[State]:
    """Return the states that jobs are to be in, when their turn comes."""
    if (body.ids is None) == (body.filter is None):
        raise Refused(
            HTTPStatus.BAD_REQUEST, "give one of ids and filter", field="body"
        )
    allowed = STATES[body.action]
    if body.filter is None:
        return allowed
    state = body.filter.state
    if state not in allowed:
        raise Refused(
            HTTPStatus.BAD_REQUEST,
            f"one cannot {body.action} jobs that are {state}, only those that are "
            f"{', '.join(sorted(allowed))}",
            field="body.filter.state",
        )
    return frozenset({state})


def _act(q: Kue, action: BulkAction, states: frozenset[State]) -> Act:
    async def act(jobs: Sequence[JobGiven]) -> list[BulkResult]:
        match action:
            case BulkAction.RETRY:
                return await q.retry_many(jobs, states=states)
            case BulkAction.PROMOTE:
                return await q.promote_many(jobs, states=states)
            case BulkAction.CANCEL:
                return await q.cancel_many(jobs)
            case BulkAction.REMOVE:
                return await q.remove_many(jobs, states=states)

    return act


async def _named(job_ids: Sequence[int]) -> Batches:
    ids = list(dict.fromkeys(job_ids))
    for start in range(0, len(ids), MAX_BATCH):
        yield ids[start : start + MAX_BATCH]


async def _matching(call: RequestContext, wanted: BulkFilter, now: int) -> Batches:
    """Yield jobs that match and have not moved since *now*; a batch may be empty."""
    cursor: str | None = None
    accept = found_openly(wanted, call.redaction)
    while True:
        # Downwards: a job that is retried and fails again comes in behind us.
        page = await call.q.find(
            state=wanted.state,
            **wanted.wanted,
            limit=MAX_BATCH,
            cursor=cursor,
            descending=True,
            accept=accept,
        )
        yield [job for job in page.jobs if job.updated_at <= now]
        cursor = page.cursor
        if cursor is None:
            return
