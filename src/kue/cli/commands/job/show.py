"""``kue job show``, ``log`` and ``wait``: the details, log and result of a job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.padding import Padding
from rich.text import Text

from kue.cli.commands.job.change import ids_argument
from kue.cli.context import json_option, reads
from kue.cli.output.console import DONE, REFUSED, output, print_message
from kue.cli.output.listing import (
    Cell,
    Column,
    Listing,
    progress_bar,
    show_facts,
    show_json,
    show_line,
)
from kue.cli.output.steps import STEPS, step_facts
from kue.cli.output.text import both, iso, json_text, visible, visible_lines, words
from kue.cli.params import DURATION, JOB_ID, batches
from kue.cli.stuck_jobs import blocked_by
from kue.model.draft import UNLIMITED
from kue.model.errors import JobNotFound
from kue.model.job import FAILED_PARENT, Priority, State, id_at
from kue.model.job_json import job_detail
from kue.model.step_json import steps_view
from kue.store.values import MAX_LOG_LINES
from kue.worker.progress_values import LEVELS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from datetime import timedelta

    from rich.console import Console

    from kue.client.handle import JobHandle
    from kue.client.queue import Kue
    from kue.model.job import Attempt, Job, JobTerms
    from kue.model.steps import JobSteps
    from kue.store.values import LogLine

#: How often --follow reads the log: stores publish no event for log lines.
LOOK_SECONDS = 0.5
_NAMES = {priority.value: priority.name.lower() for priority in Priority}


def _started(attempt: Attempt) -> Cell:
    began = iso(attempt.run.started_at if attempt.run else attempt.at)
    return Cell(began[:19], began)


def _took(attempt: Attempt) -> str:
    return words(attempt.duration) if attempt.run else ""


def _details(attempt: Attempt) -> str:
    parts = (
        attempt.error and attempt.error.summary,
        attempt.reason,
        attempt.taken and f"reclaimed: its {attempt.taken} expired",
        attempt.delay
        and not attempt.suspended
        and f"retry after {words(attempt.delay)}",
    )
    return "; ".join(part for part in parts if part)


_COLUMNS: tuple[Column[Attempt], ...] = (
    Column("attempt", lambda one: one.run and one.run.attempt, is_number=True, rank=2),
    Column("outcome", lambda one: one.outcome),
    Column("started", _started, rank=3),
    Column("took", _took, is_number=True, rank=4),
    Column("worker", lambda one: one.run and one.run.worker, wraps=True, rank=1),
    Column("details", _details, is_long=True),
)
HISTORY = Listing(_COLUMNS, msgspec.to_builtins)


@reads
@ids_argument
@json_option(help="Write one JSON object per line; times are Unix ms.")
async def show(q: Kue, ids: tuple[int | str, ...], as_json: bool) -> int:
    """
    Show jobs: state, data, times, steps, every attempt with its error, the last stack.

    In a pipe each property is a line: name, tab, value; an empty line ends a job.
    Exits with 1 when at least one does not exist.

    \b
      kue job show 7
      kue job show 7 8 --json | jq .error.message
    """
    code = DONE
    for batch in batches(ids):
        for job_id in batch:
            try:
                job = await (await q.get(job_id)).refresh()
            except JobNotFound as exc:
                print_message(str(exc))
                code = REFUSED
            else:
                await _show(q, job, as_json=as_json)
    return code


async def _show(q: Kue, job: Job, *, as_json: bool) -> None:
    steps, now = await q.steps(job.id), await q.now()
    if as_json:
        view = msgspec.to_builtins(steps_view(steps, now))
        show_json(msgspec.to_builtins(job_detail(job)) | view)
        return
    known = _facts(
        job,
        now=now,
        log_lines=len(await q.logs(job.id)),
        blocked_by=await blocked_by(q.store, job),
    )
    every = known | step_facts(steps, now)
    show_facts((name, text) for name, text in every.items() if text)
    console = output()
    if console.is_terminal:
        _show_on_terminal(console, job, steps)
    else:
        _show_in_pipe(job, steps)


def _show_on_terminal(console: Console, job: Job, steps: JobSteps) -> None:
    if steps.steps:
        STEPS.show(steps.steps)
    if job.history:
        HISTORY.show(job.history)
    if job.error and job.error.stack:
        lines = "\n".join(visible_lines(job.error.stack))
        console.print(Padding(Text(lines, style="red"), (0, 0, 1, 2)))


def _show_in_pipe(job: Job, steps: JobSteps) -> None:
    for step in steps.steps:
        show_line("step", *STEPS.plain(step))
    for attempt in job.history:
        show_line("history", *HISTORY.plain(attempt))
    if job.error and job.error.stack:
        show_line("stack", job.error.stack)
    click.echo()


def _facts(job: Job, *, now: int, log_lines: int, blocked_by: str) -> dict[str, str]:
    """Return the properties of *job* by name, without those that are not set."""
    held = "asked to end" if job.cancelling else job.held
    every = {
        "id": str(job.id),
        "type": job.name,
        "queue": job.queue if job.queue != job.name else "",
        "state": f"{job.state} ({held})" if held else job.state.value,
        "blocked by": blocked_by,
        "held until": "" if job.held_until is None else both(job.held_until, now),
        "priority": priority_text(job.priority),
        "data": json_text(job.data),
        **_outcome(job),
        **_times(job, now),
        **option_facts(job),
        "log": f"{log_lines:,} lines (kue job log {job.id})" if log_lines else "",
        "address": job.address_id,
    }
    return {name: value for name, value in every.items() if value}


def _outcome(job: Job) -> dict[str, str]:
    progress = f"{job.progress} %" if job.progress else ""
    if job.progress_data is not None:
        progress += f" {json_text(job.progress_data)}"
    return {
        "attempts": f"{job.attempts} of {job.max_attempts or UNLIMITED}",
        "released": _released(job.releases),
        "lost workers": str(job.stalls or ""),
        "progress": progress,
        "result": json_text(job.result) if job.state is State.COMPLETE else "",
        "error": job.error.summary if job.error else "",
        "worker": job.worker or "",
    }


def _released(number: int) -> str:
    times = "once" if number == 1 else f"{number} times"
    return f"{times}, not counted as attempts" if number else ""


def _times(job: Job, now: int) -> dict[str, str]:
    moments = {
        "added": job.created_at,
        "due": job.promote_at,
        "started": job.started_at,
        "ended": job.ended_at,
        "failed": job.failed_at if job.state is not State.FAILED else None,
        "expires": job.expires_at if not job.state.is_final else None,
        "retried until": job.retry_until,
    }
    shown = {name: both(at, now) for name, at in moments.items() if at is not None}
    if job.run is not None:
        took = f"{words(max(0, now - job.run.started_at))} so far"
    else:
        took = "" if job.duration is None else words(job.duration)
    return shown | {"took": took}


def priority_text(priority: int) -> str:
    """Return a priority with its name, if it has one."""
    name = _NAMES.get(priority)
    return f"{name} ({priority})" if name else str(priority)


def option_facts(job: JobTerms) -> dict[str, str]:
    """Return the options of a job, or of one to be added, by name."""
    spec = job.spec
    lengths = {
        "delay": spec.delay,
        "timeout": spec.timeout,
        "soft timeout": spec.soft_timeout,
        "ttl": job.ttl,
        "unique for": job.unique_for,
        "unique at most": job.unique_at_most,
        "kept for": spec.retention,
    }
    return {
        "tags": ", ".join(spec.tags),
        "max errors": str(spec.max_exceptions or ""),
        "max lost workers": "" if spec.max_stalls is None else str(spec.max_stalls),
        "unique": job.unique or "",
        "unique until": "start" if job.unique_until == "start" else "",
        "group": job.group or "",
        "limited by": limits_text(job.limited_by),
        "parent": str(spec.parent or ""),
        "after": ", ".join(map(str, spec.after)),
        "when one fails": job.on_parent_failure if spec.after else "",
        "inputs": ", ".join(
            f"{name}: {_source_text(tree, spec.after)}"
            for name, tree in (spec.inputs or {}).items()
        ),
        "flow": str(job.flow or ""),
        "backoff": json_text(msgspec.to_builtins(spec.backoff)) if spec.backoff else "",
        **{name: words(ms) for name, ms in lengths.items() if ms},
        "delivery": "at most once" if job.once else "",
        "when complete": "removed" if spec.remove_on_complete else "",
        "events": "off" if spec.quiet else "",
        "meta": json_text(spec.meta) if spec.meta else "",
    }


def _source_text(tree: Any, after: Sequence[int]) -> str:
    """Return what an argument is made of: ``result of 7``."""
    if isinstance(tree, list):
        return f"[{', '.join(_source_text(one, after) for one in tree)}]"
    if tree == FAILED_PARENT:
        return "id of the first that failed"
    try:
        return f"id {after[id_at(tree)]}" if tree < 0 else f"result of {after[tree]}"
    except (TypeError, IndexError):
        return json_text(tree)


def limits_text(limits: Iterable[tuple[str, str]]) -> str:
    """Return names and keys of limits as ``--limited-by`` takes them."""
    return ", ".join(f"{name}={key}" if key else name for name, key in limits)


@reads
@click.argument("job_id", metavar="ID", type=JOB_ID)
@click.option("--follow", "-f", is_flag=True, help="Continue until the job has ended.")
@click.option("--attempt", type=int, help="Only lines of this attempt.")
@click.option(
    "--level", type=click.Choice(LEVELS), default="debug", help="This level and above."
)
@json_option(help="Write one JSON object per line: text, level, attempt, at.")
async def log(
    q: Kue, job_id: int, follow: bool, attempt: int | None, level: str, as_json: bool
) -> None:
    """
    Print the log of a job: when, level, attempt, text.

    The newest 1,000 lines are kept with the job.

    \b
      kue job log 7 --level warning
      kue job log 7 --follow
    """
    handle = await q.get(job_id)
    wanted = frozenset(LEVELS[LEVELS.index(level) :])
    async for line in _lines(handle, follow=follow):
        if line.level not in wanted or attempt not in (None, line.attempt):
            continue
        if as_json:
            show_json(msgspec.to_builtins(line) | {"level": line.level, "at": line.at})
        elif output().is_terminal:
            click.echo(f"{iso(line.at)} {line.level:<8} {visible(line.text)}")
        else:
            show_line(iso(line.at), line.level, str(line.attempt), line.text)


async def _lines(handle: JobHandle[object], *, follow: bool) -> AsyncIterator[LogLine]:
    seen: list[LogLine] = []
    while True:
        # Checked before reading, so that its last lines are not missed.
        has_ended = (await handle.refresh()).state.is_final
        lines = await handle.logs()
        for line in unseen(seen, lines):
            yield line
        if has_ended or not follow:
            return
        seen = lines
        await asyncio.sleep(LOOK_SECONDS)


def unseen(seen: list[LogLine], lines: list[LogLine]) -> list[LogLine]:
    """Return the lines that are not in *seen*; the oldest may have been dropped."""
    if len(lines) < MAX_LOG_LINES:
        return lines[len(seen) :]
    for start in range(len(seen)):
        kept = seen[start:]
        if lines[: len(kept)] == kept:
            return lines[len(kept) :]
    return lines


@reads
@click.argument("job_id", metavar="ID", type=JOB_ID)
@click.option(
    "--timeout", type=DURATION, help="Stop waiting after this; the job goes on."
)
@click.option("--json", is_flag=True, expose_value=False, help="The result is JSON.")
async def wait(q: Kue, job_id: int, timeout: timedelta | None) -> int:
    """
    Wait until a job has ended, and print its result as one JSON document.

    Exits with 1 when it failed, was cancelled, or did not end within --timeout.

    \b
      kue job wait 7 --timeout 30s
      kue job wait $(kue job add report '{"month": "2026-10"}')
    """
    handle = await q.get(job_id)
    with progress_bar(f"Job {job_id}", 100) as update:
        handle.on("progress", lambda event: update(event.detail.get("progress", 0)))
        try:
            result = await handle.result(timeout)
        except TimeoutError as exc:
            print_message(str(exc))
            return REFUSED
    show_json(result)
    return DONE
