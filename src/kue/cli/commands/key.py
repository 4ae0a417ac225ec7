"""``kue key``: keys that the payloads of jobs are protected with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from kue.cli.context import as_usage_error, json_option, noun, reads
from kue.cli.output.console import EXIT_CODES, print_message
from kue.cli.output.listing import Column, Listing
from kue.model.payload_keys import new_key
from kue.store.payload_key_use import key_use

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.store.payload_key_use import PayloadKeyUse

COLUMNS: tuple[Column[PayloadKeyUse], ...] = (
    Column("key", lambda one: one.name),
    Column("unfinished", lambda one: str(one.unfinished)),
    Column("ended", lambda one: str(one.ended)),
    Column("schedules", lambda one: str(one.schedules)),
)


@click.command(epilog=EXIT_CODES)
@click.argument("name")
def new(name: str) -> None:
    """
    Print a new random key, for payload_keys or $KUE_PAYLOAD_KEYS.

    NAME is any name that you have not used before, such as the month.  The key is
    stored nowhere: keep it where you keep other secrets.

    \b
      kue key new 2026-05
    """
    with as_usage_error():
        click.echo(new_key(name))


@reads
@json_option(help="Write one JSON object per line: name, unfinished, ended, schedules.")
async def list_(q: Kue, as_json: bool) -> None:
    """
    List the names of the keys that payloads are protected with.

    How many unfinished and ended jobs have data or a result under each key, and how
    many schedules.  A key that is not listed can go, unless keys were changed twice
    while a job ran: its steps, signals and stream are not looked at.  Reads every job.

    \b
      kue key list
    """
    found = await key_use(q.store)
    Listing(COLUMNS, msgspec.to_builtins, as_json=as_json).show(found)
    if not found:
        print_message("no payload is signed or encrypted")


@noun(new, list_)
def key() -> None:
    """
    Manage keys that the payloads of jobs are signed or encrypted with.

    \b
      kue key new 2026-05
      kue key list
    """
