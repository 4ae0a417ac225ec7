"""``kue failed``: list, retry and remove failed jobs (dead letters)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kue.cli.commands.failure_rules import replay, rule, rules
from kue.cli.commands.job.change import delay_option, each, ids_argument, results_json
from kue.cli.context import changes, json_option, noun, reads
from kue.cli.output.console import DONE, confirm, print_message, yes_option
from kue.cli.output.listing import Column, Listing, ago, count, progress_bar, show_json
from kue.cli.output.text import jobs, name_and_queue
from kue.cli.params import (
    DURATION,
    JOB_IDS,
    TIME,
    TYPE,
    limit_options,
    moment_of,
    options,
)
from kue.cli.unknown_names import check_type
from kue.client.bulk_actions import BulkSummary
from kue.client.selection import Selection
from kue.model.job import State
from kue.model.job_json import job_detail

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from kue.client.queue import Kue
    from kue.model.job import Job
    from kue.store.values import ErrorGroup

COLUMNS: tuple[Column[Job], ...] = (
    Column("id", lambda job: job.id, is_number=True),
    Column("type", name_and_queue, wraps=True),
    Column("failed", lambda job: ago(job.ended_at or job.updated_at), rank=1),
    Column("attempts", lambda job: job.attempts, is_number=True, rank=2),
    Column("error", lambda job: job.error.summary if job.error else "", is_long=True),
)
GROUPS: tuple[Column[ErrorGroup], ...] = (
    Column("jobs", lambda group: count(group.count), is_number=True),
    Column("type", lambda group: group.type),
    Column("first", lambda group: ago(group.first_at), rank=2),
    Column("last", lambda group: ago(group.last_at), rank=1),
    Column("job", lambda group: group.job_id, is_number=True),
    Column(
        "error", lambda one: f"{one.kind}: {one.message or '(others)'}", is_long=True
    ),
)
_filter_options = options(
    click.option("--type", type=TYPE, help="Only jobs of this type."),
    click.option("--error", help="Text in the error, ignoring case."),
    click.option("--since", type=TIME, help="Failed at or after: 2h, or a time."),
)


async def _selected(
    q: Kue,
    type: str | None,
    error: str | None = None,
    since: datetime | timedelta | None = None,
    until: timedelta | None = None,
) -> Selection:
    """Return the selection that the options describe."""
    await check_type(q, type)
    return Selection(
        type=type,
        error=error,
        since=await moment_of(q, since),
        until=await moment_of(q, until),
    )


async def _failed_count(q: Kue, wanted: Selection) -> int | None:
    """Return how many jobs are selected, or None if each would have to be read."""
    if wanted.error is None and wanted.since is None and wanted.until is None:
        return await q.count(State.FAILED, wanted.type)
    return None


@reads
@_filter_options
@click.option("--by-error", is_flag=True, help="Group and count them by error.")
@limit_options
@json_option(help="Write one JSON object per line: the job, or the group.")
async def list_(
    q: Kue, by_error: bool, limit: int, every: bool, as_json: bool, **filters: Any
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
    wanted = await _selected(q, **filters)
    show = _list_groups if by_error else _list_jobs
    await show(q, wanted, None if every else limit, as_json=as_json)


async def _list_jobs(
    q: Kue, wanted: Selection, most: int | None, *, as_json: bool
) -> None:
    listing = Listing(COLUMNS, job_detail, as_json=as_json)
    now, shown = await q.now(), 0
    async for found in q.ended(wanted, descending=True):
        part = found if most is None else found[: most - shown]
        listing.show(part, now=now)
        shown += len(part)
        if shown == most:
            print_message(f"these are the newest {most:,}; --all shows all")
            return


async def _list_groups(
    q: Kue, wanted: Selection, most: int | None, *, as_json: bool
) -> None:
    with progress_bar("Reading jobs", await _failed_count(q, wanted)) as update:
        groups = await q.group_errors(wanted, on_progress=update)
    listing = Listing(GROUPS, msgspec.structs.asdict, as_json=as_json)
    listing.show(groups[:most], now=await q.now())
    if most is not None and len(groups) > most:
        print_message(
            f"these are {most} of {len(groups):,} errors; --all shows all there are"
        )


@changes
@click.argument("ids", metavar="[ID...]", type=JOB_IDS, nargs=-1)
@click.option("--all", "every", is_flag=True, help="All that match.")
@_filter_options
@delay_option
@json_option(help="Write JSON: an object for each ID, or one of numbers for --all.")
async def retry(
    q: Kue,
    ids: tuple[int | str, ...],
    every: bool,
    delay: timedelta | None,
    as_json: bool,
    **filters: Any,
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
    if ids and any(filters.values()):
        raise click.UsageError("--type, --error and --since go with --all")
    if ids:
        act = partial(q.retry_many, delay=delay or 0, states={State.FAILED})
        now = State.DELAYED if delay else State.WAITING
        return await each(ids, act, now=now, as_json=as_json)
    wanted = await _selected(q, **filters)
    with progress_bar("Retrying jobs", await _failed_count(q, wanted)) as update:
        summary = await q.retry_all(wanted, delay=delay or 0, on_progress=update)
    _print_summary("retried", summary, as_json=as_json)
    return DONE


def _print_summary(did: str, summary: BulkSummary, *, as_json: bool) -> None:
    """Print how many of the jobs that matched were changed."""
    if as_json:
        show_json({did: summary.done, "changed": summary.changed, "held": summary.held})
    print_message(summary_text(did, summary))


def summary_text(did: str, summary: BulkSummary) -> str:
    """Return how many jobs were changed, and how many were not and why."""
    message = f"{did} {jobs(summary.done, 'failed job')}"
    if summary.changed:
        message += f"; {summary.changed:,} had changed, skipped"
    if summary.held:
        message += f"; {summary.held:,} stay failed: another job has their unique key"
    return message


@changes
@ids_argument
@results_json
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


@changes
@click.option("--type", type=TYPE, help="Only jobs of this type.")
@yes_option
@json_option(help="Write one JSON object of numbers.")
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
    _print_summary("removed", BulkSummary(removed), as_json=as_json)


@changes
@click.option(
    "--older-than",
    type=DURATION,
    required=True,
    help="Jobs that failed longer ago than this: 7d.",
)
@click.option("--type", type=TYPE, help="Only jobs of this type.")
@json_option(help="Write one JSON object of numbers.")
async def prune(q: Kue, older_than: timedelta, type: str | None, as_json: bool) -> None:
    """
    Remove old failed jobs permanently.

    Workers do so automatically after 7 days; see KUE_KEEP_FAILED.

    \b
      kue failed prune --older-than 7d
    """
    wanted = await _selected(q, type, until=older_than)
    with progress_bar("Removing jobs", None) as update:
        summary = await q.remove_all(wanted, on_progress=update)
    _print_summary("removed", summary, as_json=as_json)


@noun(list_, retry, forget, flush, prune, replay, rule, rules)
def failed() -> None:
    """
    List, retry, forward or remove failed jobs.

    A job is failed when its attempts are used up, or when it must not be retried.

    \b
      kue failed list --by-error
      kue failed retry --all --error timeout
      kue failed prune --older-than 7d
    """
