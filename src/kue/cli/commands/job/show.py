"""``kue job show``: the details of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kue.cli.commands.job.change import ids_argument
from kue.cli.commands.job.description import facts
from kue.cli.context import json_option, reads
from kue.cli.job_ids import batches
from kue.cli.output.listing import Cell, Column, Listing, Row, show_json, show_line
from kue.cli.output.terminal import DONE, REFUSED, Command, output, print_message
from kue.cli.output.text import iso, visible, visible_lines, words
from kue.model.errors import JobNotFound
from kue.model.job_json import job_detail

if TYPE_CHECKING:
    from rich.console import Console

    from kue.client.queue import Kue
    from kue.model.job import Attempt, Job

HISTORY = (
    Column("attempt", is_number=True, rank=2),
    Column("outcome"),
    Column("started", rank=3),
    Column("took", is_number=True, rank=4),
    Column("worker", wraps=True, rank=1),
    Column("details", is_long=True),
)


@click.command(cls=Command)
@ids_argument
@json_option(help="Write one JSON object per line; times are Unix ms.")
@reads
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
    known = facts(job, now=await q.now(), log_lines=len(await q.logs(job.id)))
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
        rows = [_row(attempt) for attempt in job.history]
        Listing(*HISTORY).show(rows)
    if job.error and job.error.stack:
        lines = "\n".join(visible_lines(job.error.stack))
        console.print(Padding(Text(lines, style="red"), (0, 0, 1, 2)))


def _show_in_pipe(job: Job, known: dict[str, str]) -> None:
    for name, value in known.items():
        show_line(name, value)
    for attempt in job.history:
        show_line("history", *_row(attempt).plain)
    if job.error and job.error.stack:
        show_line("stack", job.error.stack)
    click.echo()


def _row(attempt: Attempt) -> Row:
    run = attempt.run
    began = iso(run.started_at if run else attempt.at)
    return Row(
        [
            str(run.attempt) if run else "",
            attempt.outcome,
            Cell(began[:19], began),
            words(attempt.duration) if run else "",
            run.worker if run else "",
            _details(attempt),
        ],
        item=dict,
    )


def _details(attempt: Attempt) -> str:
    parts = (
        attempt.error and attempt.error.summary,
        attempt.reason,
        attempt.taken and f"reclaimed: its {attempt.taken} expired",
        attempt.delay and f"retry after {words(attempt.delay)}",
    )
    return "; ".join(part for part in parts if part)
