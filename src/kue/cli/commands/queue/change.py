"""``kue queue pause``, ``resume``, ``limit`` and ``clear``: change types of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from kue.cli.audit import login, unchanged
from kue.cli.context import as_usage_error, changes, json_option
from kue.cli.output.console import DONE, REFUSED, confirm, print_message, yes_option
from kue.cli.output.listing import progress_bar, show_json, show_line, show_one
from kue.cli.output.text import iso, jobs, words
from kue.cli.params import DURATION, STATE, TIME, TYPE, options
from kue.cli.unknown_names import check_type, warn_of_new_type
from kue.model.job import State
from kue.store.values import Limits

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from kue.client.queue import Kue

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
    context = click.get_current_context()
    raise click.UsageError("--until is a time that has passed", context)


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
    if as_json:
        show_json({"type": type, "paused": bool(left) and None in left})
    elif was_paused:
        show_line(_name(type), "resumed")
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
@click.option("--concurrency", type=int, help="How many may run at once.")
@click.option("--rate", type=int, help="How many may start in each --per.")
@click.option("--per", type=DURATION, help="The period of --rate; initially 1s.")
@click.option("--per-key", type=int, help="How many of one group may run at once.")
@click.option("--none", is_flag=True, help="Remove all limits.")
@json_option(help="Write one JSON object: the limits now in force.")
async def limit(q: Kue, /, type: str, none: bool, as_json: bool, **given: Any) -> None:
    """
    Limit jobs of TYPE, or show its limits.

    Limits that are not given stay as they are.  They apply across all workers of the
    queue.

    \b
      kue queue limit email --rate 100 --per 1m
      kue queue limit email --concurrency 5
      kue queue limit email --none
    """
    changes = {name: value for name, value in given.items() if value is not None}
    if none and changes:
        raise click.UsageError("--none removes all limits; give no others with it")
    if none or changes:
        await warn_of_new_type(q, type)
        known = Limits() if none else (await q.limits()).get(type, Limits())
        limits = msgspec.structs.asdict(known) | {"per": known.per / 1000}
        with as_usage_error():
            await q.limit(type, **limits | changes)
    else:
        unchanged()
    now = (await q.limits()).get(type)
    item = {"type": type, "limits": now and msgspec.structs.asdict(now)}
    show_one(item, type, limits_text(now) or "no limits", as_json=as_json)


def limits_text(limits: Limits | None) -> str:
    """Return limits in words."""
    if limits is None:
        return ""
    texts = (
        (limits.concurrency, "at once"),
        (limits.rate, f"each {words(limits.per)}"),
        (limits.per_key, "of a group at once"),
    )
    return ", ".join(f"{most} {how}" for most, how in texts if most is not None)


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
