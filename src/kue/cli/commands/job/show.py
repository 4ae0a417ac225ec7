"""``kue job show``: the details of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kue.cli.commands.job.change import ids_argument
from kue.cli.context import json_option, reads
from kue.cli.output.console import DONE, REFUSED, output, print_message
from kue.cli.output.listing import Cell, Column, Listing, show_json, show_line
from kue.cli.output.text import both, iso, json_text, visible, visible_lines, words
from kue.cli.params import batches
from kue.model.errors import JobNotFound
from kue.model.job import Priority, State
from kue.model.job_json import job_detail

if TYPE_CHECKING:
    from rich.console import Console

    from kue.client.queue import Kue
    from kue.model.job import Attempt, Job

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
        attempt.delay and f"retry after {words(attempt.delay)}",
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
    Show jobs: state, data, times, every attempt with its error, the last stack.

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
    if as_json:
        show_json(job_detail(job))
        return
    known = _facts(job, now=await q.now(), log_lines=len(await q.logs(job.id)))
    console = output()
    if console.is_terminal:
        _show_on_terminal(console, job, known)
    else:
        _show_in_pipe(job, known)


def _show_on_terminal(console: Console, job: Job, known: dict[str, str]) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in known.items():
        grid.add_row(name, Text(visible(value)))
    console.print(grid)
    if job.history:
        HISTORY.show(job.history)
    if job.error and job.error.stack:
        lines = "\n".join(visible_lines(job.error.stack))
        console.print(Padding(Text(lines, style="red"), (0, 0, 1, 2)))


def _show_in_pipe(job: Job, known: dict[str, str]) -> None:
    for name, value in known.items():
        show_line(name, value)
    for attempt in job.history:
        show_line("history", *HISTORY.plain(attempt))
    if job.error and job.error.stack:
        show_line("stack", job.error.stack)
    click.echo()


def _facts(job: Job, *, now: int, log_lines: int) -> dict[str, str]:
    """Return the properties of *job* by name, without those that are not set."""
    held = "asked to end" if job.cancelling else job.held
    name = _NAMES.get(job.priority)
    every = {
        "id": str(job.id),
        "type": job.type,
        "state": f"{job.state} ({held})" if held else job.state.value,
        "priority": f"{name} ({job.priority})" if name else str(job.priority),
        "data": json_text(job.data),
        **_outcome(job),
        **_times(job, now),
        **_options(job),
        "log": f"{log_lines:,} lines (kue job log {job.id})" if log_lines else "",
        "address": job.address_id,
    }
    return {name: value for name, value in every.items() if value}


def _outcome(job: Job) -> dict[str, str]:
    progress = f"{job.progress} %" if job.progress else ""
    if job.progress_data is not None:
        progress += f" {json_text(job.progress_data)}"
    return {
        "attempts": f"{job.attempts} of {job.max_attempts}",
        "lost workers": str(job.stalls or ""),
        "progress": progress,
        "result": json_text(job.result) if job.state is State.COMPLETE else "",
        "error": job.error.summary if job.error else "",
        "worker": job.worker or "",
    }


def _times(job: Job, now: int) -> dict[str, str]:
    moments = {
        "added": job.created_at,
        "due": job.promote_at,
        "started": job.started_at,
        "ended": job.ended_at,
        "failed": job.failed_at if job.state is not State.FAILED else None,
        "expires": job.expires_at if not job.state.is_final else None,
    }
    shown = {name: both(at, now) for name, at in moments.items() if at is not None}
    if job.run is not None:
        took = f"{words(max(0, now - job.run.started_at))} so far"
    else:
        took = "" if job.duration is None else words(job.duration)
    return shown | {"took": took}


def _options(job: Job) -> dict[str, str]:
    spec = job.spec
    lengths = {
        "delay": spec.delay,
        "timeout": spec.timeout,
        "ttl": job.ttl,
        "unique for": job.unique_for,
        "kept for": spec.retention,
    }
    return {
        "tags": ", ".join(spec.tags),
        "unique": job.unique or "",
        "group": job.group or "",
        "parent": str(spec.parent or ""),
        "after": ", ".join(map(str, spec.after)),
        "backoff": json_text(msgspec.to_builtins(spec.backoff)) if spec.backoff else "",
        **{name: words(ms) for name, ms in lengths.items() if ms},
        "delivery": "at most once" if job.once else "",
        "when complete": "removed" if spec.remove_on_complete else "",
        "meta": json_text(spec.meta) if spec.meta else "",
    }
