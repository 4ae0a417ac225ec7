"""``kue queue list`` and ``stats``: jobs by type, by state and by minute."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from kue.cli.commands.queue.change import limits_text
from kue.cli.context import json_option, reads
from kue.cli.output.console import print_message
from kue.cli.output.listing import Cell, Column, Listing, count
from kue.cli.output.text import iso, words
from kue.cli.params import TYPE
from kue.cli.unknown_names import check_type, warn_of_unhandled
from kue.client.queries import STATS_MINUTES
from kue.model.job import State
from kue.store.values import Stat, summed

if TYPE_CHECKING:
    from collections.abc import Iterable

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
MINUTE_MS = 60_000
#: With more types than this, "next waits" is left out: it takes one read per type.
MAX_LOOKS = 100


class _TypeStatus(NamedTuple):
    """The state of one type."""

    type: str
    counts: dict[State, int]
    next_since: int | None
    pause: Pause | None
    limits: Limits | None


def _count(state: State, status: _TypeStatus) -> Cell:
    return count(status.counts.get(state, 0))


def _next_waits(status: _TypeStatus, now: int) -> Cell | None:
    since = status.next_since
    return None if since is None else Cell(words(max(0, now - since)), iso(since))


def _paused_text(status: _TypeStatus) -> str:
    pause = status.pause
    if pause is None:
        return ""
    parts = (
        "all" if pause.type is None else "yes",
        pause.reason,
        pause.by and f"by {pause.by}",
        pause.until is not None and f"until {iso(pause.until)}",
    )
    return ", ".join(part for part in parts if part)


def _limits_text(status: _TypeStatus) -> str:
    return limits_text(status.limits)


COLUMNS: tuple[Column[_TypeStatus], ...] = (
    Column("type", lambda status: status.type, wraps=True),
    *(
        Column(state.value, partial(_count, state), True, rank=RANKS.get(state, 0))
        for state in STATES
    ),
    Column("next waits", lambda status: partial(_next_waits, status), rank=6),
    Column("paused", _paused_text, is_long=True, wraps=True, rank=2),
    Column("limits", _limits_text, is_long=True, wraps=True, rank=7),
)


@reads
@json_option(help="Write one JSON object per line, one for each type.")
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
    listing = Listing(COLUMNS, _item, as_json=as_json)
    listing.show(statuses, now=await q.now())
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
    waiting = [name for name in names if counts.get(name, {}).get(State.WAITING)]
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


async def _next_since(q: Kue, types: list[str]) -> dict[str, int]:
    if len(types) > MAX_LOOKS:
        return {}
    pages = await asyncio.gather(
        *(q.page(State.WAITING, type, limit=1) for type in types)
    )
    return {
        type: _waiting_since(page.jobs[0])
        for type, page in zip(types, pages, strict=True)
        if page.jobs
    }


def _waiting_since(job: Job) -> int:
    """Return since when a waiting job has been due, in Unix ms."""
    if job.history:
        return job.history[-1].at + job.history[-1].delay
    return job.created_at + job.spec.delay


def _item(status: _TypeStatus) -> JSON:
    pause, limits = status.pause, status.limits
    return {
        "type": status.type,
        **{state.value: status.counts.get(state, 0) for state in STATES},
        "next_since": status.next_since,
        "paused": pause and msgspec.structs.asdict(pause),
        "limits": limits and msgspec.structs.asdict(limits),
    }


def _minute(stat: Stat) -> Cell:
    minute = iso(stat.minute * MINUTE_MS)
    return Cell(minute.partition("T")[2][:5], minute)


def _mean(stat: Stat) -> int | None:
    return stat.run_ms // stat.ended if stat.ended else None


def _mean_run(stat: Stat) -> Cell | None:
    mean = _mean(stat)
    return None if mean is None else Cell(words(mean), str(mean))


STATS: tuple[Column[Stat], ...] = (
    Column("minute", _minute),
    Column("type", lambda stat: stat.type, wraps=True),
    Column("added", lambda stat: count(stat.added), is_number=True),
    Column("complete", lambda stat: count(stat.complete), is_number=True),
    Column("failed", lambda stat: count(stat.failed), is_number=True),
    Column("mean run", _mean_run, is_number=True, rank=1),
)


@reads
@click.argument("type", type=TYPE, required=False)
@click.option(
    "--minutes",
    type=click.IntRange(1, STATS_MINUTES),
    default=60,
    show_default=True,
    help="How far to look back.",
)
@click.option("--total", is_flag=True, help="One line per type, all minutes together.")
@json_option(help="Write one JSON object per line; minute is Unix time in minutes.")
async def stats(
    q: Kue, type: str | None, minutes: int, total: bool, as_json: bool
) -> None:
    """
    Show how many jobs were added, completed and failed, and how long runs took.

    One line per minute and type with activity.  Columns in a pipe: minute, type, added,
    complete, failed, mean run in ms; with --total without the minute.

    \b
      kue queue stats --total
      kue queue stats email --minutes 10
    """
    await check_type(q, type)
    last = await q.now() // MINUTE_MS
    found = await q.stats(last - minutes + 1, last)
    wanted = [stat for stat in found if type in (None, stat.type)]
    if total:
        Listing(STATS[1:], _total_item, as_json=as_json).show(_totals(wanted))
    else:
        ordered = sorted(wanted, key=lambda stat: (stat.minute, stat.type))
        Listing(STATS, _stat_item, as_json=as_json).show(ordered)
    if not wanted:
        print_message(f"nothing happened in the last {words(minutes * MINUTE_MS)}")


def _totals(stats: Iterable[Stat]) -> list[Stat]:
    by_type: dict[str, list[Stat]] = {}
    for stat in stats:
        by_type.setdefault(stat.type, []).append(stat)
    return [summed(0, type, by_type[type]) for type in sorted(by_type)]


def _stat_item(stat: Stat) -> dict[str, JSON]:
    return msgspec.structs.asdict(stat) | {"mean_ms": _mean(stat)}


def _total_item(stat: Stat) -> dict[str, JSON]:
    return {name: value for name, value in _stat_item(stat).items() if name != "minute"}
