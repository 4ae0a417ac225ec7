"""``kue queue pause`` and ``resume``: pause types of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kue.cli.audit import login
from kue.cli.context import changes, json_option
from kue.cli.known_names import warn_of_new_type
from kue.cli.output.listing import show_json, show_line, show_one
from kue.cli.output.terminal import DONE, REFUSED, Command, print_message
from kue.cli.output.text import iso
from kue.cli.params import TIME, TYPE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime, timedelta

    from kue.client.queue import Kue
    from kue.store.values import Pause

all_option = click.option("--all", "every", is_flag=True, help="Every type.")


@click.command(cls=Command)
@click.argument("type", type=TYPE, required=False)
@all_option
@click.option("--reason", default="", help="Why; shown with the pause.")
@click.option("--until", type=TIME, help="When it ends automatically: 2h, or a time.")
@click.option("--by", help="Who paused it; else your login name.")
@json_option(help="Write one JSON object: type (null for all), paused, until.")
@changes
async def pause(
    q: Kue,
    type: str | None,
    every: bool,
    reason: str,
    until: datetime | timedelta | None,
    by: str | None,
    as_json: bool,
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
    who = login() if by is None else by
    await q.pause(type, reason=reason, by=who, until=until)
    made = in_force(await q.paused(), lambda pause: _is_of(pause, type))
    item = {"type": type, "paused": True, "until": made.until}
    show_one(item, _name(type), "paused", pause_end(made), as_json=as_json)


@click.command(cls=Command)
@click.argument("type", type=TYPE, required=False)
@all_option
@json_option(help="Write one JSON object: type (null for all), paused.")
@changes
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
            print_message(f"still paused: {_name(other)}; {_how_to_resume(other)}")
    return DONE if was_paused else REFUSED


def _check(type: str | None, every: bool) -> None:
    if (type is None) is not every:
        raise click.UsageError("give a type, or --all")


def _name(type: str | None) -> str:
    return "every type" if type is None else type


def _how_to_resume(type: str | None) -> str:
    return "kue queue resume --all" if type is None else f"kue queue resume {type!r}"


def in_force(pauses: Iterable[Pause], is_ours: Callable[[Pause], bool]) -> Pause:
    """
    Return the pause that was just made.

    Raises:
        click.UsageError: It is over already.
    """
    for pause in pauses:
        if is_ours(pause):
            return pause
    context = click.get_current_context()
    raise click.UsageError("--until is a time that has passed", context)


def _is_of(pause: Pause, type: str | None) -> bool:
    return pause.type == type and pause.worker is None


def pause_end(pause: Pause) -> str:
    """Return when *pause* ends, in words."""
    return f"until {iso(pause.until)}" if pause.until else "until resumed"
