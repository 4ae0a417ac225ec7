"""``kue tag``: tags whose jobs the dashboard shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kue.cli.context import changes, json_option, noun, reads
from kue.cli.output.console import DONE, REFUSED, print_message
from kue.cli.output.listing import Column, Listing, count, show_one
from kue.client.tag_counts import TagCount, count_tags

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.model.payload import JSON

COLUMNS: tuple[Column[TagCount], ...] = (
    Column("tag", lambda one: one.tag, wraps=True),
    Column("jobs", lambda one: count(one.jobs), is_number=True),
    Column("failed", lambda one: count(one.failed), is_number=True),
)


def _item(one: TagCount) -> JSON:
    return one._asdict()


@reads
@json_option(help="Write one JSON object per line: tag, jobs, failed.")
async def list_(q: Kue, as_json: bool) -> None:
    """
    List the monitored tags, with the number of their jobs among the newest 10,000.

    Columns in a pipe: tag, jobs, failed.

    \b
      kue tag list
    """
    counted = await count_tags(q.store, await q.monitored_tags())
    Listing(COLUMNS, _item, as_json=as_json).show(counted, now=await q.now())
    if not counted:
        print_message("no tag is monitored; kue tag monitor adds one")


@changes
@click.argument("tag")
@json_option(help="Write one JSON object: tag, monitored.")
async def monitor(q: Kue, tag: str, as_json: bool) -> None:
    """
    Count the jobs with TAG on the dashboard.

    \b
      kue tag monitor customer-42
    """
    try:
        await q.monitor_tag(tag)
    except ValueError as exc:
        raise click.UsageError(str(exc)) from exc
    show_one({"tag": tag, "monitored": True}, tag, "monitored", as_json=as_json)


@changes
@click.argument("tag")
@json_option(help="Write one JSON object: tag, monitored.")
async def unmonitor(q: Kue, tag: str, as_json: bool) -> int:
    """
    Undo kue tag monitor.  Exits with 1 when the tag was not monitored.

    \b
      kue tag unmonitor customer-42
    """
    was = await q.unmonitor_tag(tag)
    if was or as_json:
        item = {"tag": tag, "monitored": False}
        show_one(item, tag, "not monitored any more", as_json=as_json)
    if not was:
        print_message(f"{tag} was not monitored")
    return DONE if was else REFUSED


@noun(list_, monitor, unmonitor)
def tag() -> None:
    """
    List the monitored tags, and monitor others.

    \b
      kue tag monitor customer-42
      kue tag list
    """
