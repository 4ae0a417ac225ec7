"""``kue job list``: list and search jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kue.cli.context import as_usage_error, json_option, reads
from kue.cli.output.console import Command, print_message
from kue.cli.output.listing import Column, Listing, Row, ago
from kue.cli.output.text import json_text
from kue.cli.params import PRIORITY, STATE, TIME, TYPE, limit_options, moment_of
from kue.cli.unknown_names import check_type
from kue.model.job_json import job_detail
from kue.model.payload import value_of
from kue.store.values import MAX_BATCH, Page

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from datetime import datetime, timedelta

    from kue.client.queue import Kue
    from kue.model.job import Job, State
    from kue.model.payload import JSON

COLUMNS = (
    Column("id", is_number=True),
    Column("type", wraps=True),
    Column("state"),
    Column("prio", is_number=True, rank=4),
    Column("tries", rank=3),
    Column("added", rank=2),
    Column("data", is_long=True, rank=1),
    Column("error", is_long=True),
)


@click.command("list", cls=Command)
@click.option("--type", type=TYPE, help="Only jobs of this type.")
@click.option("--state", type=STATE, help="waiting, active, delayed, failed …")
@click.option("--tag", help="Only jobs with this tag.")
@click.option("--text", help="Text in the data, ignoring case.")
@click.option("--error", help="Text in the last error, ignoring case.")
@click.option("--worker", help="Only jobs that this worker runs, or ran last.")
@click.option("--group", help="Only jobs of this group.")
@click.option("--priority", type=PRIORITY, help="critical, high, normal, low or -10.")
@click.option("--fingerprint", help="Only jobs that failed with this error.")
@click.option(
    "--data",
    "paths",
    multiple=True,
    metavar="PATH=VALUE",
    help="A value in the data: user.id=42; if repeated, all must match.",
)
@click.option("--since", type=TIME, help="Added at or after: 10m, 2026-11-15T09:30Z.")
@click.option("--until", type=TIME, help="Added before: 10m, 2026-11-15T09:30Z.")
@click.option("--newest", is_flag=True, help="In reverse order.")
@limit_options
@click.option("--cursor", help="Where to continue, as printed after a list.")
@json_option(help="Write one JSON object per line: the whole job.")
@reads
async def list_(
    q: Kue,
    /,
    type: str | None,
    state: State | None,
    paths: tuple[str, ...],
    since: datetime | timedelta | None,
    until: datetime | timedelta | None,
    newest: bool,
    limit: int,
    every: bool,
    cursor: str | None,
    as_json: bool,
    **searched: Any,
) -> None:
    """
    List jobs that match all options given.

    With a --state in the order of that state (waiting: the next to run first; ended:
    the first to end first), else by id.  Columns in a pipe: id, type, state, priority,
    attempts, when added, data, error.

    \b
      kue job list --state waiting --type email
      kue job list --error timeout --since 2h
      kue job list --all --json | jq .data
    """
    await check_type(q, type)
    filters = searched | {
        "data": dict(map(_path_and_value, paths)) or None,
        "since": await moment_of(q, since),
        "until": await moment_of(q, until),
    }
    given = {name: value for name, value in filters.items() if value not in (None, "")}
    search = _Search(type, state, newest, given)
    listing, now = Listing(*COLUMNS, as_json=as_json), await q.now()
    async for page in search.pages(q, cursor, None if every else limit):
        listing.show(row(job, now) for job in page.jobs)
        cursor = page.cursor
    if cursor is not None:
        print_message(
            f"there may be more: --cursor={cursor} continues, --all shows all"
        )


def _path_and_value(given: str) -> tuple[str, JSON]:
    """Split ``user.id=42``; the value is JSON if it can be parsed, else text."""
    path, sign, text = given.partition("=")
    if not path or not sign:
        raise click.UsageError(
            f"--data is PATH=VALUE, such as user.id=42, not {given!r}"
        )
    return path, value_of(text)


class _Search(NamedTuple):
    """A search for jobs, page by page."""

    type: str | None
    state: State | None
    newest: bool
    filters: dict[str, Any]

    async def pages(
        self, q: Kue, cursor: str | None, limit: int | None
    ) -> AsyncIterator[Page]:
        """Yield pages up to *limit* jobs; the last page has the next cursor."""
        left = limit
        while left != 0:
            size = MAX_BATCH if left is None else min(left, MAX_BATCH)
            page = await self._page(q, cursor, size)
            yield page
            cursor = page.cursor
            if cursor is None:
                return
            left = None if left is None else left - len(page.jobs)

    async def _page(self, q: Kue, cursor: str | None, size: int) -> Page:
        # find() examines the contents of jobs, which only filters need.
        look = q.find if self.filters else q.page
        with as_usage_error():
            return await look(
                type=self.type,
                state=self.state,
                descending=self.newest,
                limit=size,
                cursor=cursor,
                **self.filters,
            )


def row(job: Job, now: int) -> Row:
    """Return *job* as a line of a list."""
    return Row(
        [
            str(job.id),
            job.type,
            job.state.value,
            str(job.priority),
            f"{job.attempts}/{job.max_attempts}",
            ago(job.created_at, now),
            json_text(job.data),
            job.error.summary if job.error else "",
        ],
        partial(job_detail, job),
    )
