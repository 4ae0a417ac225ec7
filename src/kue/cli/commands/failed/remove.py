"""``kue failed forget``, ``flush`` and ``prune``: remove failed jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from kue.cli.commands.failed.filters import selected
from kue.cli.commands.failed.retry import print_summary
from kue.cli.commands.job.change import each, ids_argument, results_json
from kue.cli.confirm import confirm, yes_option
from kue.cli.context import changes, json_option
from kue.cli.known_names import check_type
from kue.cli.output.listing import progress_bar
from kue.cli.output.terminal import Command
from kue.cli.output.text import jobs
from kue.cli.params import DURATION, TYPE
from kue.client.bulk_actions import BulkSummary
from kue.model.job import State

if TYPE_CHECKING:
    from datetime import timedelta

    from kue.client.queue import Kue


@click.command(cls=Command)
@ids_argument
@results_json
@changes
async def forget(q: Kue, ids: tuple[int | str, ...], as_json: bool) -> int:
    """
    Remove failed jobs permanently.

    Removes only failed jobs; exits with 1 when at least one is not.

    \b
      kue failed forget 7 8
      kue failed list --error "no such user" --all | kue failed forget -
    """
    act = partial(q.remove_many, states={State.FAILED})
    return await each(ids, act, now="removed", as_json=as_json)


@click.command(cls=Command)
@click.option("--type", type=TYPE, help="Only jobs of this type.")
@yes_option
@json_option(help="Write one JSON object of numbers.")
@changes
async def flush(q: Kue, type: str | None, yes: bool, as_json: bool) -> None:
    """
    Remove all failed jobs permanently.

    Asks for confirmation on a terminal, unless --yes is given.

    \b
      kue failed flush --type email
    """
    await check_type(q, type)
    total = await q.count(State.FAILED, type)
    whose = f" of type {type}" if type else ""
    if total:
        confirm(f"Remove {jobs(total, 'failed job')}{whose}?", yes=yes)
    with progress_bar("Removing jobs", total) as update:
        removed = await q.clear(type, [State.FAILED], on_progress=update)
    print_summary("removed", BulkSummary(removed), as_json=as_json)


@click.command(cls=Command)
@click.option(
    "--older-than",
    type=DURATION,
    required=True,
    help="Jobs that failed longer ago than this: 7d.",
)
@click.option("--type", type=TYPE, help="Only jobs of this type.")
@json_option(help="Write one JSON object of numbers.")
@changes
async def prune(q: Kue, older_than: timedelta, type: str | None, as_json: bool) -> None:
    """
    Remove old failed jobs permanently.

    Workers do so automatically after 7 days; see KUE_KEEP_FAILED.

    \b
      kue failed prune --older-than 7d
    """
    wanted = await selected(q, type, until=older_than)
    with progress_bar("Removing jobs", None) as update:
        summary = await q.remove_all(wanted, on_progress=update)
    print_summary("removed", summary, as_json=as_json)
