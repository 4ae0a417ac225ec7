"""``kue failed list``: failed jobs, individually or grouped by error."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
import msgspec

from kue.cli.commands.failed.filters import failed_count, filter_options, selected
from kue.cli.context import json_option, reads
from kue.cli.output.listing import Column, Listing, Row, ago, count, progress_bar
from kue.cli.output.terminal import Command, print_message
from kue.model.job_json import job_detail

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from kue.client.filters import Selection
    from kue.client.queue import Kue
    from kue.model.job import Job
    from kue.store.values import ErrorGroup

COLUMNS = (
    Column("id", is_number=True),
    Column("type", wraps=True),
    Column("failed", rank=1),
    Column("attempts", is_number=True, rank=2),
    Column("error", is_long=True),
)
GROUPS = (
    Column("jobs", is_number=True),
    Column("type"),
    Column("first", rank=2),
    Column("last", rank=1),
    Column("job", is_number=True),
    Column("error", is_long=True),
)


@click.command("list", cls=Command)
@filter_options
@click.option("--by-error", is_flag=True, help="Group and count them by error.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="How many at most.",
)
@click.option("--all", "every", is_flag=True, help="No limit.")
@json_option(help="Write one JSON object per line: the job, or the group.")
@reads
async def list_(
    q: Kue,
    type: str | None,
    error: str | None,
    since: datetime | timedelta | None,
    by_error: bool,
    limit: int,
    every: bool,
    as_json: bool,
) -> None:
    """
    List failed jobs, the newest first.

    With --by-error one line for each error, ignoring numbers in it, the most frequent
    first.  Columns in a pipe: id, type, when, attempts, error; by error: jobs, type,
    first, last, newest job, error.

    \b
      kue failed list --since 1h
      kue failed list --by-error --type email
    """
    wanted = await selected(q, type, error, since)
    most = None if every else limit
    if by_error:
        await _list_groups(q, wanted, most, as_json=as_json)
    else:
        await _list_jobs(q, wanted, most, as_json=as_json)


async def _list_jobs(
    q: Kue, wanted: Selection, most: int | None, *, as_json: bool
) -> None:
    listing, now, shown = Listing(*COLUMNS, as_json=as_json), await q.now(), 0
    async for jobs in q.ended(wanted, descending=True):
        part = jobs if most is None else jobs[: most - shown]
        listing.show(_row(job, now) for job in part)
        shown += len(part)
        if shown == most:
            print_message(f"these are the newest {most:,}; --all shows all")
            return


async def _list_groups(
    q: Kue, wanted: Selection, most: int | None, *, as_json: bool
) -> None:
    with progress_bar("Reading jobs", await failed_count(q, wanted)) as update:
        groups = await q.group_errors(wanted, on_progress=update)
    now = await q.now()
    listing = Listing(*GROUPS, as_json=as_json)
    listing.show(_group_row(group, now) for group in groups[:most])
    if most is not None and len(groups) > most:
        print_message(
            f"these are {most} of {len(groups):,} errors; --all shows all there are"
        )


def _row(job: Job, now: int) -> Row:
    return Row(
        [
            str(job.id),
            job.type,
            ago(job.ended_at or job.updated_at, now),
            str(job.attempts),
            job.error.summary if job.error else "",
        ],
        partial(job_detail, job),
    )


def _group_row(group: ErrorGroup, now: int) -> Row:
    return Row(
        [
            count(group.count),
            group.type,
            ago(group.first_at, now),
            ago(group.last_at, now),
            str(group.job_id),
            f"{group.kind}: {group.message or '(others)'}",
        ],
        partial(msgspec.structs.asdict, group),
    )
