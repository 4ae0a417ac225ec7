"""``kue workers pause`` and ``resume``: pause one worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kue.cli.audit import login
from kue.cli.commands.queue.pause import in_force, pause_end
from kue.cli.context import changes, json_option
from kue.cli.known_names import UnknownName, near
from kue.cli.output.listing import show_json, show_line, show_one
from kue.cli.output.terminal import DONE, REFUSED, Command, print_message
from kue.cli.params import TIME, names_from_store

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from click.shell_completion import CompletionItem

    from kue.client.queue import Kue
    from kue.store.contract import Store


async def _names(store: Store) -> list[str]:
    return [worker.name for worker in await store.workers()]


def _complete(
    context: click.Context, _param: click.Parameter, incomplete: str
) -> list[str | CompletionItem]:
    found: list[str] = names_from_store(context, _names)
    return [name for name in found if name.startswith(incomplete)]


F = TypeVar("F", bound=Callable[..., Any])


def name_argument(function: F) -> F:
    """Add the argument NAME, a worker's, with shell completion."""
    return click.argument("name", shell_complete=_complete)(function)


@click.command(cls=Command)
@name_argument
@click.option("--reason", default="", help="Why; shown with the pause.")
@click.option("--until", type=TIME, help="When it ends automatically: 2h, or a time.")
@click.option("--by", help="Who paused it; else your login name.")
@json_option(help="Write one JSON object: worker, paused, until.")
@changes
async def pause(
    q: Kue,
    name: str,
    reason: str,
    until: datetime | timedelta | None,
    by: str | None,
    as_json: bool,
) -> None:
    """
    Pause the worker NAME: it claims no more jobs; running ones continue.

    It is notified within a few seconds.  Other workers take the jobs instead.

    \b
      kue workers pause web-1 --reason "new kernel" --until 30m
    """
    await _check(q, name)
    who = login() if by is None else by
    await q.pause(worker=name, reason=reason, by=who, until=until)
    made = in_force(await q.paused(), lambda pause: pause.worker == name)
    item = {"worker": name, "paused": True, "until": made.until}
    show_one(item, name, "paused", pause_end(made), as_json=as_json)


@click.command(cls=Command)
@name_argument
@json_option(help="Write one JSON object: worker, paused.")
@changes
async def resume(q: Kue, name: str, as_json: bool) -> int:
    """
    Let the worker NAME claim jobs again.

    Exits with 1 when it was not paused.

    \b
      kue workers resume web-1
    """
    was_paused = await q.resume(worker=name)
    if as_json:
        show_json({"worker": name, "paused": False})
    elif was_paused:
        show_line(name, "resumed")
    if not was_paused:
        paused = [pause.worker for pause in await q.paused() if pause.worker]
        print_message(
            f"worker {name!r} was not paused" + near(name, paused, what="paused ones")
        )
    return DONE if was_paused else REFUSED


async def _check(q: Kue, name: str) -> None:
    """Reject an unknown worker, whose pause would stay forever."""
    names = [worker.name for worker in await q.workers()]
    if name not in names:
        message = f"no worker is named {name!r}"
        raise UnknownName(message + near(name, names, what="workers"))
