"""``kue batch``: list batches with their progress, cancel them, retry failed jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from kue.cli.context import as_usage_error, changes, json_option, noun, reads
from kue.cli.output.console import DONE, REFUSED, print_message
from kue.cli.output.listing import Column, Listing, ago, count, show_one
from kue.cli.params import JOB_ID

if TYPE_CHECKING:
    from kue.client.batch_handle import BatchProgress
    from kue.client.queue import Kue

COLUMNS: tuple[Column[BatchProgress], ...] = (
    Column("id", lambda one: one.id, is_number=True),
    Column("name", lambda one: one.name, wraps=True),
    Column("state", lambda one: one.state.value),
    Column("done", lambda one: f"{one.percent} %", is_number=True),
    Column("jobs", lambda one: count(one.total), is_number=True, rank=1),
    Column("complete", lambda one: count(one.complete), is_number=True, rank=3),
    Column("failed", lambda one: count(one.failed), is_number=True),
    Column("cancelled", lambda one: count(one.cancelled), is_number=True, rank=4),
    Column("added", lambda one: ago(one.created_at), rank=2),
)
_HELP = "Write one JSON object per line; times are Unix ms."
batch_argument = click.argument("batch_id", metavar="ID", type=JOB_ID)


@reads
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="Where to continue, as printed after a list.")
@json_option(help=_HELP)
async def list_(q: Kue, limit: int, cursor: str | None, as_json: bool) -> None:
    """
    List batches with their progress, the newest first.

    Columns in a pipe: id, name, state, percent, jobs, complete, failed, cancelled, when
    added.

    \b
      kue batch list
      kue batch list --json | jq 'select(.failed > 0) | .id'
    """
    with as_usage_error():
        page = await q.batches(limit=limit, cursor=cursor)
    now = await q.now()
    Listing(COLUMNS, msgspec.to_builtins, as_json=as_json).show(page.batches, now=now)
    if not page.batches and cursor is None:
        print_message("there is no batch")
    if page.cursor is not None:
        print_message(f"there may be more: --cursor={page.cursor} continues")


@reads
@batch_argument
@json_option(help=_HELP)
async def show(q: Kue, batch_id: int, as_json: bool) -> None:
    """
    Show the progress of a batch: the columns of kue batch list.

    \b
      kue batch show 7
      kue flow show 7
    """
    with as_usage_error():
        progress = await q.batch(batch_id).progress()
    now = await q.now()
    Listing(COLUMNS, msgspec.to_builtins, as_json=as_json).show([progress], now=now)


@changes
@batch_argument
@click.option("--reason", default="", help="Why; stored with the jobs.")
@json_option(help="Write one JSON object: the batch after that.")
async def cancel(q: Kue, batch_id: int, reason: str, as_json: bool) -> None:
    """
    Cancel the jobs of a batch that have not started; those that run go on.

    \b
      kue batch cancel 7 --reason "wrong file"
    """
    batch = q.batch(batch_id)
    with as_usage_error():
        await batch.cancel(reason)
    after = await batch.progress()
    text = f"{after.cancelled:,} of {after.total:,} cancelled"
    show_one(msgspec.to_builtins(after), str(batch_id), text, as_json=as_json)


@changes
@batch_argument
@json_option(help="Write one JSON object: id, retried.")
async def retry(q: Kue, batch_id: int, as_json: bool) -> int:
    """
    Run the jobs of a batch again that failed or were cancelled.

    Exits with 1 when there was none.

    \b
      kue batch retry 7
    """
    with as_usage_error():
        number = await q.batch(batch_id).retry_failed()
    item = {"id": batch_id, "retried": number}
    show_one(item, str(batch_id), f"{number:,} retried", as_json=as_json)
    return DONE if number else REFUSED


@noun(list_, show, cancel, retry)
def batch() -> None:
    """
    List, show, cancel and retry batches.

    \b
      kue batch list
      kue batch retry 7
    """
