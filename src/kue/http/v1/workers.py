"""
Who runs jobs: what they say of themselves, what they run, and what they are told.

A name may contain slashes.  One that ends in ``/stacks`` cannot be looked at here.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from kue.http.auth.access import Scope
from kue.http.framework.operations import RequestContext, Section
from kue.http.framework.problem import Refused, given
from kue.http.v1.queues import PauseOrder, PauseView, end_of, views
from kue.model.job import State
from kue.model.names import MAX_BYTES
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kue.client.queue import Kue
    from kue.model.job import Job
    from kue.store.values import WorkerStatus

section = Section("workers", "Who runs jobs, and how they are.")

#: Running jobs looked at for the list of all workers.
MAX_RUNNING = 200
#: Pages of running jobs looked at for one worker.
MAX_PAGES = 10

WorkerName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_BYTES)]


class RunningJob(msgspec.Struct, frozen=True):
    """A job in a worker's hands."""

    id: int
    type: str
    attempt: int
    progress: int
    started_at: int
    #: How long it has been running, in ms.
    elapsed_ms: int


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says of itself; null where it says nothing."""

    host: str | None = None
    pid: int | None = None
    version: str | None = None
    #: Unix ms.
    started_at: int | None = None
    #: How many jobs of each type it runs at once.
    slots: dict[str, int] = {}
    #: Runs that it has ended.
    done: int | None = None
    #: Bytes that its process holds.
    memory: int | None = None
    #: How late its event loop is.
    lag_ms: float | None = None
    #: How often a handler held the loop, and where it did last.
    blocked: int | None = None
    blocked_at: str | None = None
    #: What keeps it from working though the store answers, such as damage.
    trouble: str | None = None


class WorkerView(WorkerReport, frozen=True, kw_only=True):
    """A worker that the store knows of."""

    name: str
    alive: bool
    #: Gone without having stopped, since `deadline`.
    lost: bool
    #: Gone in good order, since `deadline`.
    stopped: bool
    paused: bool
    pause: PauseView | None
    #: Past this without a heartbeat it is lost; once it stopped, when it did.  Unix ms.
    deadline: int
    #: How many jobs it runs.
    active: int
    #: Those that were looked at; `active` may be more.
    running: list[RunningJob]


class WorkerPause(msgspec.Struct, frozen=True):
    """What keeps a worker from starting jobs; null if nothing does."""

    name: str
    pause: PauseView | None


class WorkerOrder(msgspec.Struct, frozen=True):
    """What a worker is to do; it hears of it with its next beat."""

    name: str
    order: Literal["stop", "stacks"]


class WorkerStacks(msgspec.Struct, frozen=True):
    """What a worker was doing when someone asked."""

    #: When it wrote this down, Unix ms.
    at: int
    text: str


class WorkerList(msgspec.Struct, frozen=True):
    """All workers, by name."""

    workers: list[WorkerView]


@section.get("/workers")
async def list_workers(call: RequestContext) -> WorkerList:
    """
    All workers, with what they run.

    At most 200 running jobs are looked at for all of them together.
    """
    facts = await call.q.workers()
    page = await call.q.page(State.ACTIVE, limit=MAX_RUNNING)
    return WorkerList(await _shown(call, facts, page.jobs))


# Before that of one worker, whose name may be any path.
@section.get("/workers/{name:path}/stacks", scope=Scope.MANAGE)
async def show_stacks(call: RequestContext, name: WorkerName) -> WorkerStacks:
    """
    The stacks that a worker last wrote down: of its jobs, tasks and threads.

    404 until it did, and again ten minutes later.
    """
    found = await call.q.stacks(name)
    if found is None:
        await _worker(call.q, name)
        detail = f"worker {name!r} has written down no stacks in the last minutes"
        raise Refused(HTTPStatus.NOT_FOUND, detail)
    return WorkerStacks(*found)


@section.get("/workers/{name:path}")
async def show_worker(call: RequestContext, name: WorkerName) -> WorkerView:
    """One worker, with what it runs; up to 5,000 running jobs are looked at."""
    worker = await _worker(call.q, name)
    jobs = await _running(call.q, worker) if worker.active else []
    [shown] = await _shown(call, [worker], jobs)
    return shown


@section.post("/workers/{name:path}/pause")
async def pause_worker(
    call: RequestContext, name: WorkerName, body: PauseOrder
) -> WorkerPause:
    """
    Let a worker start nothing new; it hears of it with its next beat.

    What it runs goes on, and others take what it leaves.
    """
    until = await end_of(call.q, body)
    await _worker(call.q, name)
    with given("path.name"):
        await call.q.pause(
            worker=name, reason=body.reason, by=call.user.name, until=until
        )
    return WorkerPause(name, (await _pauses(call)).get(name))


@section.post("/workers/{name:path}/resume")
async def resume_worker(call: RequestContext, name: WorkerName) -> WorkerPause:
    """Let a worker take jobs again."""
    if not await call.q.resume(worker=name):
        # One that is away may be known by its pause alone.
        await _worker(call.q, name)
    return WorkerPause(name, (await _pauses(call)).get(name))


@section.post("/workers/{name:path}/stop", status=HTTPStatus.ACCEPTED)
async def stop_worker(call: RequestContext, name: WorkerName) -> WorkerOrder:
    """
    Let a worker leave as SIGTERM does: it takes no more jobs, and ends those it has.

    A supervisor starts no other in its place, and ends with its last.
    """
    return await _order(call.q, name, "stop")


@section.post("/workers/{name:path}/stacks", status=HTTPStatus.ACCEPTED)
async def write_stacks(call: RequestContext, name: WorkerName) -> WorkerOrder:
    """Have a worker write down where its jobs, tasks and threads are; GET reads it."""
    return await _order(call.q, name, "stacks")


async def _order(q: Kue, name: str, order: Literal["stop", "stacks"]) -> WorkerOrder:
    if not await q.order(name, order):
        await _worker(q, name)
        raise Refused(HTTPStatus.NOT_FOUND, f"worker {name!r} is gone")
    return WorkerOrder(name, order)


async def _worker(q: Kue, name: str) -> WorkerStatus:
    for worker in await q.workers():
        if worker.name == name:
            return worker
    raise Refused(HTTPStatus.NOT_FOUND, f"no worker is named {name!r}")


async def _pauses(call: RequestContext) -> dict[str, PauseView]:
    pauses = views(await call.pauses())
    return {pause.worker: pause for pause in pauses if pause.worker}


async def _running(q: Kue, worker: WorkerStatus) -> list[Job]:
    """Look for what a worker runs among all that runs."""
    found: list[Job] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await q.page(State.ACTIVE, limit=MAX_BATCH, cursor=cursor)
        found += [job for job in page.jobs if job.worker == worker.name]
        cursor = page.cursor
        if cursor is None or len(found) >= min(worker.active, MAX_RUNNING):
            break
    return found[:MAX_RUNNING]


async def _shown(
    call: RequestContext, workers: Iterable[WorkerStatus], jobs: Iterable[Job]
) -> list[WorkerView]:
    now = await call.q.now()
    pauses = await _pauses(call)
    hide = call.redaction.text
    running: dict[str | None, list[RunningJob]] = {}
    for job in jobs:
        running.setdefault(job.worker, []).append(_run(job, now))
    return [
        _view(worker, pauses.get(worker.name), running.get(worker.name, []), hide)
        for worker in workers
    ]


def _view(
    worker: WorkerStatus,
    pause: PauseView | None,
    running: list[RunningJob],
    hide: Callable[[str], str],
) -> WorkerView:
    said = msgspec.structs.asdict(_said(worker))
    return WorkerView(
        **{**said, "trouble": said["trouble"] and hide(said["trouble"])},
        name=worker.name,
        alive=worker.alive,
        lost=worker.lost,
        stopped=worker.stopped,
        paused=worker.paused,
        pause=pause,
        deadline=worker.deadline,
        active=worker.active,
        running=running,
    )


def _said(worker: WorkerStatus) -> WorkerReport:
    try:
        return msgspec.convert(worker.info, WorkerReport)
    except msgspec.ValidationError:
        # Another version, with other words for it.
        return WorkerReport()


def _run(job: Job, now: int) -> RunningJob:
    started_at = job.started_at or now
    return RunningJob(
        id=job.id,
        type=job.type,
        attempt=job.attempts,
        progress=job.progress,
        started_at=started_at,
        elapsed_ms=max(0, now - started_at),
    )
