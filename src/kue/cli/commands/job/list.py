"""``kue job list``: list and search jobs."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kue.cli.context import as_usage_error, json_option, reads
from kue.cli.output.console import output, print_message
from kue.cli.output.listing import Column, Listing, ago, progress_bar
from kue.cli.output.text import json_text, name_and_queue
from kue.cli.params import PRIORITY, STATE, TIME, TYPE, limit_options, moment_of
from kue.cli.unknown_names import check_type
from kue.model.job_json import job_detail
from kue.model.payload import value_of
from kue.store.values import MAX_BATCH, MAX_SCAN, Page

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime, timedelta

    from kue.client.queue import Kue
    from kue.model.job import Job, State
    from kue.model.payload import JSON

#: Jobs that a search looks at, unless it is given or all are wanted.
MAX_LOOKED = 1_000_000

COLUMNS: tuple[Column[Job], ...] = (
    Column("id", lambda job: job.id, is_number=True),
    Column("type", name_and_queue, wraps=True),
    Column("state", lambda job: job.state.value),
    Column("prio", lambda job: job.priority, is_number=True, rank=4),
    Column("tries", lambda job: f"{job.attempts}/{job.max_attempts or '∞'}", rank=3),
    Column("added", lambda job: ago(job.created_at), rank=2),
    Column("data", lambda job: json_text(job.data), is_long=True, rank=1),
    Column("error", lambda job: job.error.summary if job.error else "", is_long=True),
)


@reads
@click.option("--type", type=TYPE, help="Only jobs of this type.")
@click.option("--state", type=STATE, help="waiting, active, delayed, failed …")
@click.option("--tag", help="Only jobs with this tag.")
@click.option("--text", help="Words in data, error or log; '\"two words\"' together.")
@click.option("--error", help="Words in the last error.")
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
@click.option(
    "--max-scan",
    type=click.IntRange(min=1),
    metavar="JOBS",
    help=f"Look at no more jobs than this; {MAX_LOOKED:,} unless with --all.",
)
@click.option("--cursor", help="Where to continue, as printed after a list.")
@json_option(help="Write one JSON object per line: the whole job.")
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
    max_scan: int | None,
    cursor: str | None,
    as_json: bool,
    **searched: Any,
) -> None:
    """
    List jobs that match all options given.

    With a --state in the order of that state (waiting: the next to run first; ended:
    the first to end first), else by id.  Columns in a pipe: id, type, state, priority,
    attempts, when added, data, error.

    Words are found in any order, ignoring case.  A search looks at jobs one after the
    other, and shows how far it is.

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
    read: Callable[..., Awaitable[Page]] = partial(q.page, state, type)
    search = None
    # A search looks at the contents of jobs, which only filters need.
    if given:
        most = max_scan or (sys.maxsize if every else MAX_LOOKED)
        search = _Search(q, given | {"type": type, "state": state}, most)
        read = search.page
    listing, now = Listing(COLUMNS, job_detail, as_json=as_json), await q.now()
    left = None if every else limit
    while left != 0 and not (search and search.is_over):
        size = MAX_BATCH if left is None else min(left, MAX_BATCH)
        with as_usage_error():
            page = await read(limit=size, cursor=cursor, descending=newest)
        listing.show(page.jobs, now=now)
        cursor = page.cursor
        if cursor is None:
            return
        left = None if left is None else left - len(page.jobs)
    if search and search.is_over:
        so_far, further = f"looked at {search.progress}", "--max-scan looks further"
    else:
        so_far, further = "there may be more", "--all shows all"
    print_message(f"{so_far}: --cursor={cursor} continues, {further}")


class _Search:
    """A search that goes on by itself, and shows how far it is."""

    def __init__(self, q: Kue, filters: dict[str, Any], most: int) -> None:
        self._q = q
        self._filters = filters
        self._most = most
        self._looked_at = 0
        self._total: int | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has looked at as many jobs as it may."""
        return self._looked_at >= self._most

    @property
    def progress(self) -> str:
        return f"{self._looked_at:,} of {self._total:,} jobs"

    async def page(self, *, limit: int, cursor: str | None, descending: bool) -> Page:
        """Return the next jobs: on a terminal as many as wanted, else the first."""
        if self._total is None:
            self._total = await self._count()
        jobs: list[Job] = []
        with progress_bar("looking at jobs", self._total) as show:
            while True:
                show(self._looked_at)
                found = await self._q.find(
                    limit=limit - len(jobs),
                    cursor=cursor,
                    descending=descending,
                    scan=min(MAX_SCAN, self._most - self._looked_at),
                    **self._filters,
                )
                jobs += found.jobs
                self._looked_at += found.looked_at
                cursor = found.cursor
                is_enough = len(jobs) == limit or (jobs and not output().is_terminal)
                if cursor is None or is_enough or self.is_over:
                    return Page(jobs, cursor)

    async def _count(self) -> int:
        counts = await self._q.counts(self._filters["type"])
        state = self._filters["state"]
        return counts[state] if state else sum(counts.values())


def _path_and_value(given: str) -> tuple[str, JSON]:
    """Split ``user.id=42``; the value is JSON if it can be parsed, else text."""
    path, sign, text = given.partition("=")
    if not path or not sign:
        raise click.UsageError(
            f"--data is PATH=VALUE, such as user.id=42, not {given!r}"
        )
    return path, value_of(text)
