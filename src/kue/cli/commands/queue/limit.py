"""``kue queue limit``: rate and concurrency limits of a type, across all workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import msgspec

from kue.cli.audit import unchanged
from kue.cli.context import as_usage_error, changes, json_option
from kue.cli.known_names import warn_of_new_type
from kue.cli.output.listing import show_one
from kue.cli.output.terminal import Command
from kue.cli.output.text import words
from kue.cli.params import DURATION, TYPE
from kue.store.values import Limits

if TYPE_CHECKING:
    from datetime import timedelta

    from kue.client.queue import Kue


@click.command(cls=Command)
@click.argument("type", type=TYPE)
@click.option("--concurrency", type=int, help="How many may run at once.")
@click.option("--rate", type=int, help="How many may start in each --per.")
@click.option("--per", type=DURATION, help="The period of --rate; initially 1s.")
@click.option("--per-key", type=int, help="How many of one group may run at once.")
@click.option("--none", is_flag=True, help="Remove all limits.")
@json_option(help="Write one JSON object: the limits now in force.")
@changes
async def limit(
    q: Kue,
    type: str,
    concurrency: int | None,
    rate: int | None,
    per: timedelta | None,
    per_key: int | None,
    none: bool,
    as_json: bool,
) -> None:
    """
    Limit jobs of TYPE, or show its limits.

    Limits that are not given stay as they are.  They apply across all workers of the
    queue.

    \b
      kue queue limit email --rate 100 --per 1m
      kue queue limit email --concurrency 5
      kue queue limit email --none
    """
    given: dict[str, Any] = {
        "concurrency": concurrency,
        "rate": rate,
        "per": per,
        "per_key": per_key,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if none and changes:
        raise click.UsageError("--none removes all limits; give no others with it")
    if none or changes:
        await warn_of_new_type(q, type)
        known = Limits() if none else (await q.limits()).get(type, Limits())
        with as_usage_error():
            await q.limit(type, **_as_options(known) | changes)
    else:
        unchanged()
    _show(type, (await q.limits()).get(type), as_json=as_json)


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


def _as_options(limits: Limits) -> dict[str, Any]:
    return msgspec.structs.asdict(limits) | {"per": limits.per / 1000}


def _show(type: str, limits: Limits | None, *, as_json: bool) -> None:
    known = None if limits is None else msgspec.structs.asdict(limits)
    item = {"type": type, "limits": known}
    show_one(item, type, limits_text(limits) or "no limits", as_json=as_json)
