"""``kue failed retry``: the ones named, or all that match."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kue.cli.commands.failed.filters import failed_count, selected, which_options
from kue.cli.commands.job.change import each
from kue.cli.context import changes, json_option
from kue.cli.job_ids import JOB_IDS
from kue.cli.output.listing import progress_bar, show_json
from kue.cli.output.terminal import DONE, Command, say
from kue.cli.output.text import jobs
from kue.cli.params import DURATION
from kue.model.job import State

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from kue.client.bulk_actions import BulkResult, BulkSummary
    from kue.client.queue import Kue


@click.command(cls=Command)
@click.argument("ids", metavar="[ID...]", type=JOB_IDS, nargs=-1)
@click.option("--all", "every", is_flag=True, help="All that match, however many.")
@which_options
@click.option("--delay", type=DURATION, help="Run no sooner than after this, as 10m.")
@json_option(help="Write JSON: an object for each ID, or one of numbers for --all.")
@changes
async def retry(
    q: Kue,
    ids: tuple[int | str, ...],
    every: bool,
    type: str | None,
    error: str | None,
    since: datetime | timedelta | None,
    delay: timedelta | None,
    as_json: bool,
) -> int:
    """
    Put failed jobs back in line; their attempts count from nothing.

    With --all, those that fail again meanwhile are not retried a second time, and those
    that changed meanwhile are left alone.

    \b
      kue failed retry 7 8
      kue failed retry --all --type email --error timeout
    """
    if bool(ids) is every:
        raise click.UsageError("name jobs, or say --all")
    if ids and any((type, error, since)):
        raise click.UsageError("--type, --error and --since go with --all")

    async def act(batch: list[int]) -> list[BulkResult]:
        return await q.retry_many(batch, delay=delay or 0, states={State.FAILED})

    if ids:
        now = State.DELAYED if delay else State.WAITING
        return await each(ids, act, now=now, as_json=as_json)
    wanted = await selected(q, type, error, since)
    with progress_bar("Retrying jobs", await failed_count(q, wanted)) as tell:
        swept = await q.retry_all(wanted, delay=delay or 0, on_progress=tell)
    tell_swept("retried", swept, as_json=as_json)
    return DONE


def tell_swept(did: str, swept: BulkSummary, *, as_json: bool) -> None:
    """Say what became of all that matched."""
    if as_json:
        show_json({did: swept.done, "changed": swept.changed, "held": swept.held})
    changed = f"; {swept.changed:,} had changed meanwhile" if swept.changed else ""
    held = (
        f"; {swept.held:,} stay failed: another job has their unique key"
        if swept.held
        else ""
    )
    say(f"{did} {jobs(swept.done, 'failed job')}{changed}{held}")
