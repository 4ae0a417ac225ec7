"""``kue queue list``: job counts by type and state."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from kue.cli.commands.queue.change import limits_text
from kue.cli.context import json_option, reads
from kue.cli.output.console import Command, print_message
from kue.cli.output.listing import Cell, Column, Listing, Row, count
from kue.cli.output.text import iso, words
from kue.cli.unknown_names import warn_of_unhandled
from kue.model.job import State

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.model.job import Job
    from kue.model.payload import JSON
    from kue.store.values import Limits, Pause

#: In the order of a job's life cycle.
STATES = (
    State.WAITING,
    State.ACTIVE,
    State.DELAYED,
    State.BLOCKED,
    State.COMPLETE,
    State.FAILED,
    State.CANCELLED,
)
#: States that a narrow table leaves out first.
RANKS = {State.CANCELLED: 5, State.BLOCKED: 4, State.COMPLETE: 3, State.DELAYED: 1}
COLUMNS = (
    Column("type", wraps=True),
    *(
        Column(state.value, is_number=True, rank=RANKS.get(state, 0))
        for state in STATES
    ),
    Column("next waits", rank=6),
    Column("paused", is_long=True, wraps=True, rank=2),
    Column("limits", is_long=True, wraps=True, rank=7),
)
#: With more types than this, "next waits" is left out: it takes one read per type.
MAX_LOOKS = 100


class _TypeStatus(NamedTuple):
    """The state of one type."""

    type: str
    counts: dict[State, int]
    next_since: int | None
    pause: Pause | None
    limits: Limits | None


@click.command("list", cls=Command)
@json_option(help="Write one JSON object per line, one for each type.")
@reads
async def list_(q: Kue, as_json: bool) -> None:
    """
    List types with the number of their jobs in each state.

    "next waits" is how long the next job to run has been waiting.  Columns in a pipe:
    type, waiting, active, delayed, blocked, complete, failed, cancelled, since when the
    next one waits, paused, limits.

    \b
      kue queue list
      kue queue list --json | jq 'select(.failed > 0)'
    """
    statuses = await _statuses(q)
    now = await q.now()
    listing = Listing(*COLUMNS, as_json=as_json)
    listing.show(_row(status, now) for status in statuses)
    await warn_of_unhandled(q)
    if not statuses:
        print_message("there are no jobs yet; kue job add adds one")


async def _statuses(q: Kue) -> list[_TypeStatus]:
    counts = await q.counts_by_type()
    pauses = {
        pause.type or "": pause for pause in await q.paused() if pause.worker is None
    }
    limits = await q.limits()
    names = sorted(counts.keys() | limits.keys() | (pauses.keys() - {""}))
    waiting = [name for name in names if _has_waiting(counts.get(name, {}))]
    next_since = await _next_since(q, waiting)
    return [
        _TypeStatus(
            name,
            counts.get(name, {}),
            next_since.get(name),
            pauses.get("") or pauses.get(name),
            limits.get(name),
        )
        for name in names
    ]


def _has_waiting(counts: dict[State, int]) -> bool:
    return counts.get(State.WAITING, 0) > 0


async def _next_since(q: Kue, types: list[str]) -> dict[str, int]:
    if len(types) > MAX_LOOKS:
        return {}
    pages = await asyncio.gather(
        *(q.page(State.WAITING, type, limit=1) for type in types)
    )
    return {
        type: waiting_since(page.jobs[0])
        for type, page in zip(types, pages, strict=True)
        if page.jobs
    }


def waiting_since(job: Job) -> int:
    """Return since when a waiting job has been due, in Unix ms."""
    if job.history:
        return job.history[-1].at + job.history[-1].delay
    return job.created_at + job.spec.delay


def _row(status: _TypeStatus, now: int) -> Row:
    pause, since = status.pause, status.next_since
    numbers = [status.counts.get(state, 0) for state in STATES]
    waits = "" if since is None else Cell(words(max(0, now - since)), iso(since))
    ends = [_paused_text(pause), limits_text(status.limits)]
    return Row(
        [status.type, *map(count, numbers), waits, *ends], partial(_item, status)
    )


def _item(status: _TypeStatus) -> JSON:
    pause, limits = status.pause, status.limits
    return {
        "type": status.type,
        **{state.value: status.counts.get(state, 0) for state in STATES},
        "next_since": status.next_since,
        "paused": pause and msgspec.structs.asdict(pause),
        "limits": limits and msgspec.structs.asdict(limits),
    }


def _paused_text(pause: Pause | None) -> str:
    if pause is None:
        return ""
    parts = (
        "all" if pause.type is None else "yes",
        pause.reason,
        pause.by and f"by {pause.by}",
        pause.until is not None and f"until {iso(pause.until)}",
    )
    return ", ".join(part for part in parts if part)
