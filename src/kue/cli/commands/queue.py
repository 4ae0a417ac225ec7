"""``kue queue``: list, pause, limit, monitor and clear types of jobs."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from kue.cli.audit import login
from kue.cli.commands.queue_limit import limit, limits_text
from kue.cli.commands.queue_monitor import monitor
from kue.cli.context import as_usage_error, changes, json_option, noun, reads
from kue.cli.output.console import DONE, REFUSED, confirm, print_message, yes_option
from kue.cli.output.listing import (
    Cell,
    Column,
    Listing,
    count,
    progress_bar,
    show_json,
    show_one,
    took,
)
from kue.cli.output.text import iso, jobs, words
from kue.cli.params import STATE, TIME, TYPE, options
from kue.cli.unknown_names import check_type, warn_of_new_type, warn_of_unhandled
from kue.client.queries import STATS_MINUTES
from kue.model.histogram import ready_at
from kue.model.job import State
from kue.store.values import Stat, summed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, timedelta

    from kue.client.queue import Kue
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


COLUMNS: tuple[Column[_TypeStatus], ...] = (
    Column("type", lambda status: status.type, wraps=True),
    *(
        Column(state.value, partial(_count, state), True, rank=RANKS.get(state, 0))
        for state in STATES
    ),
    Column("next waits", lambda status: partial(_next_waits, status), rank=6),
    Column("paused", _paused_text, is_long=True, wraps=True, rank=2),
    Column(
        "limits", lambda one: limits_text(one.limits), is_long=True, wraps=True, rank=7
    ),
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


async def _next_since(q: Kue, types: list[str]) -> dict[str, int | None]:
    if len(types) > MAX_LOOKS:
        return {}
    pages = await asyncio.gather(
        *(q.page(State.WAITING, type, limit=1) for type in types)
    )
    now = await q.now()
    found = {
        type: ready_at(page.jobs[0])
        for type, page in zip(types, pages, strict=True)
        if page.jobs
    }
    # One that was promoted, or woken by a signal, would be ready later.
    return {
        type: None if since is None else min(since, now)
        for type, since in found.items()
    }


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
    return None if mean is None else took(mean)


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


all_option = click.option("--all", "every", is_flag=True, help="Every type.")
#: What `pause_now` takes.
pause_options = options(
    click.option("--reason", default="", help="Why; shown with the pause."),
    click.option(
        "--until", type=TIME, help="When it ends automatically: 2h, or a time."
    ),
    click.option("--by", help="Who paused it; else your login name."),
)


async def pause_now(
    q: Kue,
    *,
    type: str | None = None,
    worker: str | None = None,
    reason: str,
    until: datetime | timedelta | None,
    by: str | None,
) -> int | None:
    """Pause a type, a worker or everything; return when that ends, Unix ms."""
    who = login() if by is None else by
    await q.pause(type, worker=worker, reason=reason, by=who, until=until)
    for pause in await q.paused():
        if (pause.type, pause.worker) == (type, worker):
            return pause.until
    raise click.UsageError("--until is a time that has passed")


def pause_end(until: int | None) -> str:
    """Return when a pause ends, in words."""
    return f"until {iso(until)}" if until else "until resumed"


@changes
@click.argument("type", type=TYPE, required=False)
@all_option
@pause_options
@json_option(help="Write one JSON object: type (null for all), paused, until.")
async def pause(
    q: Kue, /, type: str | None, every: bool, as_json: bool, **options: Any
) -> None:
    """
    Start no more jobs of TYPE, or of any type with --all.

    Running jobs continue, and jobs can still be added.  A pause applies to all workers,
    also after they restart, until it is resumed or --until is reached.

    \b
      kue queue pause email --reason "mail server moves" --until 2h
      kue queue pause --all
    """
    _check(type, every)
    if type is not None:
        await warn_of_new_type(q, type)
    until = await pause_now(q, type=type, **options)
    item = {"type": type, "paused": True, "until": until}
    show_one(item, _name(type), "paused", pause_end(until), as_json=as_json)


@changes
@click.argument("type", type=TYPE, required=False)
@all_option
@json_option(help="Write one JSON object: type (null for all), paused.")
async def resume(q: Kue, type: str | None, every: bool, as_json: bool) -> int:
    """
    End the pause of TYPE, or the one of --all.

    A type that was paused by name stays paused when --all is resumed, and vice versa.
    Exits with 1 when there was no such pause.

    \b
      kue queue resume email
      kue queue resume --all
    """
    _check(type, every)
    was_paused = await q.resume(type)
    left = [pause.type for pause in await q.paused() if pause.worker is None]
    if was_paused or as_json:
        item = {"type": type, "paused": None in left}
        show_one(item, _name(type), "resumed", as_json=as_json)
    if not was_paused:
        print_message(
            "there is no pause of every type" if every else f"{type} was not paused"
        )
    for other in left:
        if other is None or type is None:
            how = "--all" if other is None else repr(other)
            print_message(f"still paused: {_name(other)}; kue queue resume {how}")
    return DONE if was_paused else REFUSED


def _check(type: str | None, every: bool) -> None:
    if (type is None) is not every:
        raise click.UsageError("give a type, or --all")


def _name(type: str | None) -> str:
    return "every type" if type is None else type


@changes
@click.argument("type", type=TYPE)
@click.option(
    "--state",
    "states",
    type=STATE,
    multiple=True,
    required=True,
    help="Jobs in this state; may be repeated.",
)
@yes_option
@json_option(help="Write one JSON object: removed.")
async def clear(
    q: Kue, type: str, states: tuple[State, ...], yes: bool, as_json: bool
) -> None:
    """
    Remove all jobs of TYPE in the given states permanently.

    Asks for confirmation on a terminal, unless --yes is given.  Running jobs are not
    cleared: cancel them.

    \b
      kue queue clear email --state complete --state cancelled
    """
    await check_type(q, type)
    if State.ACTIVE in states:
        raise click.UsageError(
            "running jobs are not cleared; cancel them with kue job cancel"
        )
    counts = await q.counts(type)
    total = sum(counts[state] for state in states)
    where = ", ".join(states)
    if total:
        confirm(f"Remove {jobs(total, f'{where} job')} of type {type}?", yes=yes)
    with progress_bar("Removing jobs", total) as update, as_usage_error():
        removed = await q.clear(type, states, on_progress=update)
    if as_json:
        show_json({"removed": removed})
    print_message(f"removed {jobs(removed)}")


@noun(list_, pause, resume, limit, clear, stats, monitor)
def queue() -> None:
    """
    List, pause, limit, monitor or clear types of jobs.

    \b
      kue queue list
      kue queue pause email --reason "mail server moves" --until 2h
      kue queue stats email --minutes 30
    """
