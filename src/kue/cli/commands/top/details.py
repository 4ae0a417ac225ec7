"""Details of a queue or worker, and the help, of ``kue top``."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

from rich.text import Text

from kue.cli.commands.queue_limit import limits_text
from kue.cli.commands.top.figures import span, trend
from kue.cli.commands.top.snapshot import TREND_MINUTES
from kue.cli.commands.top.tables import (
    queue_state,
    running_text,
    slots_of,
    worker_state,
)
from kue.cli.output.text import both, since, visible, words
from kue.http.v1.rates import MINUTE_MS, RATE_MINUTES
from kue.model.histogram import Percentiles, percentiles
from kue.model.job import State
from kue.worker.unhandled_types import takes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kue.cli.commands.top.columns import TopCell
    from kue.cli.commands.top.snapshot import Details, QueueFacts, Snapshot
    from kue.store.values import Errors, WorkerStatus

#: Width of the names of facts.
NAME = 13
#: Lines of one fact.
MAX_LINES = 3
#: Workers that are named.
MAX_WORKERS = 10
HELP = (
    ("↑ ↓  j k", "select a queue or a worker; also Page Up, Page Down, Home, End"),
    ("Tab", "switch between queues and workers"),
    ("p", "pause or resume the selected queue or worker"),
    ("P", "pause or resume every queue"),
    ("r", "retry the failed jobs of the selected queue, after asking"),
    ("d  Enter", "details: errors, percentiles, limits, running jobs"),
    ("/", "show only names with this text; Enter keeps it, Esc shows all"),
    ("s", "sort queues: need, name, waiting, active, failed, in/m, out/m"),
    ("?", "this help"),
    ("q  Esc  Ctrl-C", "leave; Esc closes details and the filter first"),
    ("Ctrl-Z", "suspend; fg continues"),
    ("", ""),
    ("in/m  out/m", "jobs added and completed in the last 60 seconds, about"),
    ("err/m", "jobs that failed for good in the last 60 seconds, about"),
    ("oldest", "how long the oldest waiting job has been waiting"),
    ("wait95", "95 % of jobs waited no longer, in the last five minutes"),
    ("run50  run95", "50 % and 95 % of runs took no longer"),
    ("state", "grows: more jobs are added than end; failing: some just failed"),
)


def help_lines() -> Iterator[Text]:
    """Return the keys and columns, explained."""
    for keys, meaning in HELP:
        yield Text(f"  {keys:<16}").append(meaning)


def queue_lines(
    snapshot: Snapshot, details: Details, type: str | None, width: int
) -> Iterator[Text]:
    """Return the details of a queue."""
    queue = snapshot.queues.get(type or "")
    if queue is None:
        yield Text(f"queue {visible(type or '')} is gone; Esc goes back")
        return
    yield _title(f"queue {queue.type}", queue_state(queue))
    yield from _facts(_queue_facts(queue, snapshot, details), width)
    yield Text()
    yield from _error_lines(details.errors, snapshot.now)


def worker_lines(
    snapshot: Snapshot, details: Details, name: str | None, width: int
) -> Iterator[Text]:
    """Return the details of a worker."""
    worker = snapshot.workers.get(name or "")
    if worker is None:
        yield Text(f"worker {visible(name or '')} is gone; Esc goes back")
        return
    yield _title(f"worker {worker.name}", worker_state(worker))
    yield from _facts(_worker_facts(worker, snapshot), width)
    yield Text()
    jobs = details.running.get(worker.name, ())
    left = worker.active - len(jobs)
    yield Text(f"runs {worker.active:,}" + (f", {left:,} not shown" if left else ""))
    for job in sorted(jobs, key=lambda job: job.started_at or snapshot.now):
        yield Text(f"  {visible(running_text([job], snapshot.now))}")


def _title(text: str, state: TopCell) -> Text:
    return Text(f"{visible(text)}  ", style="bold").append(state.text, state.style)


def _facts(facts: Iterable[tuple[str, str]], width: int) -> Iterator[Text]:
    for name, value in facts:
        lines = wrap(visible(value), max(20, width - NAME - 2))
        for number, line in enumerate(lines[:MAX_LINES]):
            title = f"  {'' if number else name:<{NAME}}"
            yield Text.assemble((title, "dim"), line)


def _queue_facts(
    queue: QueueFacts, snapshot: Snapshot, details: Details
) -> Iterator[tuple[str, str]]:
    counts = ((state, queue.count(state)) for state in State)
    yield "jobs", ", ".join(f"{number:,} {state}" for state, number in counts if number)
    yield "paused", _pause_text(queue, snapshot.now)
    yield "limits", limits_text(details.limits)
    rates = queue.per_minute
    ended = f"{rates.complete:,.0f} complete, {rates.failed:,.0f} failed"
    yield "last minute", f"{rates.added:,.0f} added, {ended}"
    yield f"out, {TREND_MINUTES} min", trend(queue.trend) if any(queue.trend) else ""
    oldest = details.oldest.get(queue.type)
    yield "oldest waits", "" if oldest is None else words(oldest)
    yield "waited", _percentiles_text(percentiles(queue.recent.waits))
    yield "ran", _percentiles_text(percentiles(queue.recent.runs))
    yield "workers", _workers_text(queue.type, snapshot)
    yield "needs", _drain_text(queue)


def _pause_text(queue: QueueFacts, now: int) -> str:
    pause = queue.pause
    if pause is None:
        return "with every queue" if queue.all_paused else ""
    parts = (
        since(pause.at, now),
        pause.by and f"by {pause.by}",
        pause.until is not None and f"until {both(pause.until, now)}",
        pause.reason,
    )
    return ", ".join(part for part in parts if part)


def _percentiles_text(found: Percentiles | None) -> str:
    if found is None:
        return ""
    numbers = zip((50, 95, 99), (found.p50, found.p95, found.p99), strict=True)
    parts = ", ".join(f"{share} %: {span(value)}" for share, value in numbers)
    return f"{parts} (last {RATE_MINUTES} minutes)"


def _workers_text(type: str, snapshot: Snapshot) -> str:
    names = [one.name for one in snapshot.workers.values() if takes(one, type)]
    more = f" and {len(names) - MAX_WORKERS:,} more" if len(names) > MAX_WORKERS else ""
    return ", ".join(names[:MAX_WORKERS]) + more or "none"


def _drain_text(queue: QueueFacts) -> str:
    waiting = queue.count(State.WAITING)
    ended = queue.per_minute.complete + queue.per_minute.failed
    if not waiting or not ended:
        return ""
    needed = round(waiting / ended * MINUTE_MS)
    return f"{words(needed)} for the waiting jobs, at the rate of the last minute"


def _error_lines(errors: Errors | None, now: int) -> Iterator[Text]:
    if errors is None:
        yield Text("reading errors …", style="dim")
        return
    if not errors.groups:
        yield Text("no failed jobs", style="dim")
        return
    shown = len(errors.groups)
    more = f" ({shown} of {errors.total:,})" if errors.total > shown else ""
    yield Text(f"errors of failed jobs, by count{more}", style="bold")
    for group in errors.groups:
        message = visible(group.message or "(others)")
        line = Text(f"  {group.count:>7,}  ")
        line.append(f"{span(max(0, now - group.last_at)):>6} ago  ", "dim")
        line.append(f"job {group.job_id}  ", "dim")
        yield line.append(f"{visible(group.kind)}: {message}", "red")


def _worker_facts(
    worker: WorkerStatus, snapshot: Snapshot
) -> Iterator[tuple[str, str]]:
    info = worker.info
    for name in ("host", "pid", "version"):
        yield name, str(info.get(name) or "")
    if isinstance(started := info.get("started_at"), int):
        yield "started", both(started, snapshot.now)
    if not worker.alive:
        how = "lost" if worker.lost else "stopped"
        yield how, both(worker.deadline, snapshot.now)
    slots = info.get("slots")
    if isinstance(slots, dict):
        types = ", ".join(f"{type} {slots[type]}" for type in sorted(slots))
        yield "slots", f"{worker.active:,} of {slots_of(worker):,} used: {types}"
    yield "done", f"{done:,}" if isinstance(done := info.get("done"), int) else ""
    if isinstance(memory := info.get("memory"), int):
        yield "memory", f"{memory / (1 << 20):,.0f} MB"
    if isinstance(lag := info.get("lag_ms"), int | float):
        yield "loop lag", words(round(lag))
    if blocked := info.get("blocked"):
        yield "blocked", f"{blocked} times; last at {info.get('blocked_at') or '?'}"
    yield "fails", worker.trouble or ""
