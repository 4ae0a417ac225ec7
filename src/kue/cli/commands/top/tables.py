"""The tables of queues and workers of ``kue top``: what their cells say."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kue.cli.commands.top.columns import TopCell, TopColumn
from kue.cli.commands.top.figures import short, span, trend
from kue.cli.commands.top.snapshot import TREND_MINUTES
from kue.cli.output.text import name_and_queue, since
from kue.model.histogram import percentile
from kue.model.job import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kue.cli.commands.top.snapshot import Details, QueueFacts, Snapshot
    from kue.model.job import Job
    from kue.store.values import WorkerStatus

BAD, WARN, QUIET = "bold red", "yellow", "dim"
#: Kinds of running jobs that a row of a worker names.
MAX_NAMED = 20


def queue_columns(details: Details) -> list[TopColumn[QueueFacts]]:
    """Return the columns of the table of queues."""
    return [
        TopColumn("queue", 0, lambda queue: TopCell(queue.type), is_number=False),
        TopColumn("state", 9, queue_state, is_number=False),
        *(
            TopColumn(state.value, width, partial(_count, state, width), rank)
            for state, width, rank in (
                (State.WAITING, 7, 0),
                (State.ACTIVE, 6, 0),
                (State.DELAYED, 7, 5),
                (State.FAILED, 6, 0),
            )
        ),
        TopColumn("in/m", 5, lambda one: TopCell(short(one.per_minute.added, 5)), 2),
        TopColumn(
            "out/m", 5, lambda one: TopCell(short(one.per_minute.complete, 5)), 1
        ),
        TopColumn("err/m", 5, _failing, 3),
        TopColumn("oldest", 6, partial(_oldest, details.oldest), 4),
        TopColumn("wait95", 6, lambda one: _percentile(one.recent.waits, 0.95), 9),
        TopColumn("run50", 6, lambda one: _percentile(one.recent.runs, 0.5), 8),
        TopColumn("run95", 6, lambda one: _percentile(one.recent.runs, 0.95), 7),
        TopColumn(
            f"out, {TREND_MINUTES} min",
            TREND_MINUTES,
            lambda one: TopCell(trend(one.trend) if any(one.trend) else ""),
            6,
            is_number=False,
        ),
    ]


def queue_state(queue: QueueFacts) -> TopCell:
    """Return what an operator should know of a queue, in a word."""
    if queue.is_paused:
        return TopCell("paused", WARN)
    if queue.concern == "no-worker":
        return TopCell("no worker", BAD)
    if queue.per_minute.failed:
        return TopCell("failing", BAD)
    if queue.concern == "full":
        return TopCell("full", WARN)
    if queue.concern == "backlog":
        return TopCell("grows", WARN)
    return TopCell("runs" if queue.count(State.ACTIVE) else "", "green")


def _count(state: State, width: int, queue: QueueFacts) -> TopCell:
    number = queue.count(state)
    is_bad = state is State.FAILED and number
    return TopCell(short(number, width), "red" if is_bad else "" if number else QUIET)


def _failing(queue: QueueFacts) -> TopCell:
    number = queue.per_minute.failed
    return TopCell(short(number, 5), "red" if number else QUIET)


def _oldest(oldest: Mapping[str, int], queue: QueueFacts) -> TopCell:
    waits = oldest.get(queue.type)
    return TopCell("" if waits is None else span(waits))


def _percentile(counts: Mapping[int, int], share: float) -> TopCell:
    found = percentile(counts, share)
    return TopCell("" if found is None else span(found))


# -- workers -------------------------------------------------------------------


def worker_columns(
    snapshot: Snapshot, details: Details
) -> list[TopColumn[WorkerStatus]]:
    """Return the columns of the table of workers."""
    return [
        TopColumn("worker", 0, lambda worker: TopCell(worker.name), is_number=False),
        TopColumn("state", 7, worker_state, is_number=False),
        TopColumn("slots", 7, lambda worker: TopCell(_slots(worker))),
        TopColumn("done", 7, _done, 1),
        TopColumn(
            "runs",
            0,
            lambda worker: TopCell(_doing(worker, snapshot, details)),
            is_number=False,
        ),
    ]


def worker_state(worker: WorkerStatus) -> TopCell:
    """Return whether a worker works, in a word."""
    if not worker.alive:
        return TopCell("stopped", QUIET) if worker.stopped else TopCell("lost", BAD)
    if worker.trouble:
        return TopCell("fails", BAD)
    return TopCell("paused", WARN) if worker.paused else TopCell("alive", "green")


def slots_of(worker: WorkerStatus) -> int | None:
    """Return how many jobs a worker runs at once; None if it does not report it."""
    slots = worker.info.get("slots")
    if not isinstance(slots, dict):
        return None
    return sum(number for number in slots.values() if isinstance(number, int))


def _slots(worker: WorkerStatus) -> str:
    slots = slots_of(worker)
    return f"{worker.active}" if slots is None else f"{worker.active}/{slots}"


def _done(worker: WorkerStatus) -> TopCell:
    done = worker.info.get("done")
    return TopCell(short(done, 7) if isinstance(done, int) else "")


def _doing(worker: WorkerStatus, snapshot: Snapshot, details: Details) -> str:
    if worker.alive and worker.trouble:
        return worker.trouble
    if not worker.alive:
        left = f", ran {worker.active}" if worker.active else ""
        return since(worker.deadline, snapshot.now) + left
    jobs = details.running.get(worker.name, ())
    named = running_text(jobs[:MAX_NAMED], snapshot.now)
    more = worker.active - min(len(jobs), MAX_NAMED)
    return named + (f" +{more}" if jobs and more > 0 else "")


def running_text(jobs: Sequence[Job], now: int) -> str:
    """Return the jobs that run, with their ids and for how long, the longest first."""
    ordered = sorted(jobs, key=lambda job: job.started_at or now)
    return ", ".join(
        f"{name_and_queue(job)} {job.id} {span(max(0, now - (job.started_at or now)))}"
        for job in ordered
    )
