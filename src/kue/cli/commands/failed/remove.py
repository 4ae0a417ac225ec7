"""``kue failed forget``, ``flush`` and ``prune``: three ways to be rid of failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kue.cli.commands.failed.filters import selected
from kue.cli.commands.failed.retry import tell_swept
from kue.cli.commands.job.change import answers_json, each
from kue.cli.confirm import confirm, yes_option
from kue.cli.context import changes, json_option
from kue.cli.job_ids import JOB_IDS
from kue.cli.known_names import check_type
from kue.cli.output.listing import progress_bar
from kue.cli.output.terminal import Command
from kue.cli.output.text import jobs
from kue.cli.params import DURATION, TYPE
from kue.client.bulk_actions import BulkSummary
from kue.model.job import State

if TYPE_CHECKING:
    from datetime import timedelta

    from kue.client.bulk_actions import BulkResult
    from kue.client.queue import Kue


@click.command(cls=Command)
@click.argument("ids", metavar="ID...", type=JOB_IDS, nargs=-1, required=True)
@answers_json
@changes
async def forget(q: Kue, ids: tuple[int | str, ...], as_json: bool) -> int:
    """
    Remove failed jobs, for good.

    Only jobs that are failed; exits with 1 when at least one is not.

    \b
      kue failed forget 7 8
      kue failed list --error "no such user" --all | kue failed forget -
    """

    async def act(batch: list[int]) -> list[BulkResult]:
        return await q.remove_many(batch, states={State.FAILED})

    return await each(ids, act, now="removed", as_json=as_json)


@click.command(cls=Command)
@click.option("--type", type=TYPE, help="Only jobs of this type.")
@yes_option
@json_option(help="Write one JSON object of numbers.")
@changes
async def flush(q: Kue, type: str | None, yes: bool, as_json: bool) -> None:
    """
    Remove all failed jobs, for good.

    Asks first on a terminal, unless --yes.

    \b
      kue failed flush --type email
    """
    await check_type(q, type)
    total = await q.count(State.FAILED, type)
    whose = f" of type {type}" if type else ""
    if total:
        confirm(f"Remove {jobs(total, 'failed job')}{whose}?", yes=yes)
    with progress_bar("Removing jobs", total) as tell:
        removed = await q.clear(type, [State.FAILED], on_progress=tell)
    tell_swept("removed", BulkSummary(removed), as_json=as_json)


@click.command(cls=Command)
@click.option(
    "--older-than",
    type=DURATION,
    required=True,
    help="Those that failed longer ago than this, as 7d.",
)
@click.option("--type", type=TYPE, help="Only jobs of this type.")
@json_option(help="Write one JSON object of numbers.")
@changes
async def prune(q: Kue, older_than: timedelta, type: str | None, as_json: bool) -> None:
    """
    Remove failed jobs that are old, for good.

    Workers do so by themselves after 7 days; see KUE_KEEP_FAILED.

    \b
      kue failed prune --older-than 7d
    """
    wanted = await selected(q, type, until=older_than)
    with progress_bar("Removing jobs", None) as tell:
        swept = await q.remove_all(wanted, on_progress=tell)
    tell_swept("removed", swept, as_json=as_json)
