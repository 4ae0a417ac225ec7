"""
Workers: their status, the jobs they run, and orders to them.

A name may contain slashes.  A worker whose name ends in ``/stacks`` cannot be shown.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Literal

import msgspec

from kue.http.auth.roles import Scope
from kue.http.framework.operations import RequestContext, Section
from kue.http.framework.problem import input_errors, not_found
from kue.http.v1.queues import PauseOrder, pause_options
from kue.http.v1.stats import PauseView, active_pauses
from kue.model.job import State
from kue.model.names import Name  # noqa: TC001 - operations read annotations
from kue.model.view_struct import View
from kue.store.values import MAX_BATCH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kue.client.queue import Kue
    from kue.model.job import Job
    from kue.store.values import WorkerStatus

section = Section("workers", "Workers: their status, running jobs, pauses and orders.")

#: Running jobs read for the list of all workers.
MAX_RUNNING = 200
#: Pages of running jobs read for one worker.
MAX_PAGES = 10


class RunningJob(View, frozen=True, kw_only=True):
    """A job that a worker is running."""

    id: int
    type: str
    attempt: int
    progress: int
    started_at: int
    #: How long it has been running, in ms.
    elapsed_ms: int


class ProcessCountView(msgspec.Struct, frozen=True):
    """How many processes run jobs, and how many do at least and at most."""

    now: int
    least: int
    most: int


class WorkerReport(View, frozen=True, kw_only=True):
    """The status that a worker reports; null for what it does not report."""

    host: str | None = None
    pid: int | None = None
    version: str | None = None
    #: Unix ms.
    started_at: int | None = None
    #: How many jobs of each type it runs at once.
    slots: dict[str, int] = {}
    #: How many it runs at once, all types together; null if types share no slots.
    concurrency: int | None = None
    #: How many processes its supervisor has, if that follows the backlog.
    processes: ProcessCountView | None = None
    #: Runs that it has ended.
    done: int | None = None
    #: Memory of its process, in bytes.
    memory: int | None = None
    #: The lag of its event loop.
    lag_ms: float | None = None
    #: How often a handler blocked the loop, and where it did last.
    blocked: int | None = None
    blocked_at: str | None = None
    #: What keeps it from working though the store answers, such as damaged data.
    trouble: str | None = None


class WorkerView(WorkerReport, frozen=True, kw_only=True):
    """A worker that the store knows."""

    name: str
    alive: bool
    #: Disappeared without stopping, since `deadline`.
    lost: bool
    #: Stopped in order, since `deadline`.
    stopped: bool
    paused: bool
    pause: PauseView | None
    #: Past this without a heartbeat it is lost; once it stopped, when it did.  Unix ms.
    deadline: int
    #: How many jobs it runs.
    active: int
    #: Those that were read; `active` may be more.
    running: list[RunningJob]


class WorkerPause(msgspec.Struct, frozen=True):
    """The pause of a worker; null if there is none."""

    name: str
    pause: PauseView | None


class WorkerOrder(msgspec.Struct, frozen=True):
    """An order to a worker, which receives it with its next heartbeat."""

    name: str
    order: Literal["stop", "stacks"]


class WorkerStacks(msgspec.Struct, frozen=True):
    """The stacks of a worker, written on request."""

    #: When they were written, Unix ms.
    at: int
    text: str


class WorkerList(msgspec.Struct, frozen=True):
    """All workers, by name."""

    workers: list[WorkerView]


@section.get("/workers")
async def list_workers(context: RequestContext) -> WorkerList:
    """
    All workers, with their running jobs.

    At most 200 running jobs are read for all of them together.
    """
    workers = await context.q.workers()
    page = await context.q.page(State.ACTIVE, limit=MAX_RUNNING)
    return WorkerList(await _shown(context, workers, page.jobs))


# Before that of one worker, whose name may be any path.
@section.get("/workers/{name:path}/stacks", scope=Scope.MANAGE)
async def show_stacks(context: RequestContext, name: Name) -> WorkerStacks:
    """
    The last stacks of a worker's jobs, tasks and threads.

    404 until it has written some, and again ten minutes later.
    """
    found = await context.q.stacks(name)
    if found is None:
        await _worker(context.q, name)
        raise not_found(f"worker {name!r} has written no stacks in the last minutes")
    return WorkerStacks(*found)


@section.get("/workers/{name:path}")
async def show_worker(context: RequestContext, name: Name) -> WorkerView:
    """One worker, with its running jobs; up to 5,000 running jobs are read."""
    worker = await _worker(context.q, name)
    jobs = await _running(context.q, worker) if worker.active else []
    [shown] = await _shown(context, [worker], jobs)
    return shown


@section.post("/workers/{name:path}/pause")
async def pause_worker(
    context: RequestContext, name: Name, body: PauseOrder
) -> WorkerPause:
    """
    Pause a worker: it starts no more jobs, from its next heartbeat on.

    Its running jobs continue, and other workers take the rest.
    """
    options = await pause_options(context, body)
    await _worker(context.q, name)
    with input_errors("path.name"):
        await context.q.pause(worker=name, **options)
    return WorkerPause(name, (await _pauses(context)).get(name))


@section.post("/workers/{name:path}/resume")
async def resume_worker(context: RequestContext, name: Name) -> WorkerPause:
    """Resume a worker: it starts jobs again."""
    if not await context.q.resume(worker=name):
        # A worker that is gone may be known by its pause alone.
        await _worker(context.q, name)
    return WorkerPause(name, (await _pauses(context)).get(name))


@section.post("/workers/{name:path}/stop", status=HTTPStatus.ACCEPTED)
async def stop_worker(context: RequestContext, name: Name) -> WorkerOrder:
    """
    Stop a worker as SIGTERM does: it takes no more jobs, and finishes those it has.

    A supervisor does not replace it, and exits with its last worker.
    """
    return await _order(context.q, name, "stop")


@section.post("/workers/{name:path}/stacks", status=HTTPStatus.ACCEPTED)
async def write_stacks(context: RequestContext, name: Name) -> WorkerOrder:
    """Have a worker write the stacks of its jobs, tasks and threads; GET reads them."""
    return await _order(context.q, name, "stacks")


async def _order(q: Kue, name: str, order: Literal["stop", "stacks"]) -> WorkerOrder:
    if not await q.order(name, order):
        await _worker(q, name)
        raise not_found(f"worker {name!r} is gone")
    return WorkerOrder(name, order)


async def _worker(q: Kue, name: str) -> WorkerStatus:
    for worker in await q.workers():
        if worker.name == name:
            return worker
    raise not_found(f"no worker is named {name!r}")


async def _pauses(context: RequestContext) -> dict[str, PauseView]:
    pauses = await active_pauses(context)
    return {pause.worker: pause for pause in pauses if pause.worker}


async def _running(q: Kue, worker: WorkerStatus) -> list[Job]:
    """Find the jobs of a worker among all running ones."""
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
    context: RequestContext, workers: Iterable[WorkerStatus], jobs: Iterable[Job]
) -> list[WorkerView]:
    now = await context.q.now()
    pauses = await _pauses(context)
    running: dict[str | None, list[RunningJob]] = {}
    for job in jobs:
        started_at = job.started_at or now
        run = RunningJob.of(
            job,
            attempt=job.attempts,
            started_at=started_at,
            elapsed_ms=max(0, now - started_at),
        )
        running.setdefault(job.worker, []).append(run)
    reports = [(worker, _report(worker)) for worker in workers]
    return [
        WorkerView.of(
            report,
            worker,
            trouble=report.trouble and context.redaction.text(report.trouble),
            pause=pauses.get(worker.name),
            running=running.get(worker.name, []),
        )
        for worker, report in reports
    ]


def _report(worker: WorkerStatus) -> WorkerReport:
    try:
        return msgspec.convert(worker.info, WorkerReport)
    except msgspec.ValidationError:
        # Another version, with another format.
        return WorkerReport()
