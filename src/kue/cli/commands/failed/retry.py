"""``kue failed retry``: retry failed jobs, by id or all that match."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from kue.cli.commands.failed.filters import failed_count, filter_options, selected
from kue.cli.commands.job.change import delay_option, each
from kue.cli.context import changes, json_option
from kue.cli.job_ids import JOB_IDS
from kue.cli.output.listing import progress_bar, show_json
from kue.cli.output.terminal import DONE, Command, print_message
from kue.cli.output.text import jobs
from kue.model.job import State

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from kue.client.bulk_actions import BulkSummary
    from kue.client.queue import Kue


@click.command(cls=Command)
@click.argument("ids", metavar="[ID...]", type=JOB_IDS, nargs=-1)
@click.option("--all", "every", is_flag=True, help="All that match.")
@filter_options
@delay_option
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
    Requeue failed jobs; their attempts count from zero.

    With --all, jobs that fail again in the meantime are not retried a second time, and
    jobs that changed in the meantime are skipped.

    \b
      kue failed retry 7 8
      kue failed retry --all --type email --error timeout
    """
    if bool(ids) is every:
        raise click.UsageError("give job ids, or --all")
    if ids and any((type, error, since)):
        raise click.UsageError("--type, --error and --since go with --all")
    if ids:
        act = partial(q.retry_many, delay=delay or 0, states={State.FAILED})
        now = State.DELAYED if delay else State.WAITING
        return await each(ids, act, now=now, as_json=as_json)
    wanted = await selected(q, type, error, since)
    with progress_bar("Retrying jobs", await failed_count(q, wanted)) as update:
        summary = await q.retry_all(wanted, delay=delay or 0, on_progress=update)
    print_summary("retried", summary, as_json=as_json)
    return DONE


def print_summary(did: str, summary: BulkSummary, *, as_json: bool) -> None:
    """Print how many of the jobs that matched were changed."""
    if as_json:
        show_json({did: summary.done, "changed": summary.changed, "held": summary.held})
    changed = f"; {summary.changed:,} had changed, skipped" if summary.changed else ""
    held = (
        f"; {summary.held:,} stay failed: another job has their unique key"
        if summary.held
        else ""
    )
    print_message(f"{did} {jobs(summary.done, 'failed job')}{changed}{held}")
