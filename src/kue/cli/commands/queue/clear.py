"""``kue queue clear``: remove all jobs of a type in given states."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kue.cli.confirm import confirm, yes_option
from kue.cli.context import as_usage_error, changes, json_option
from kue.cli.known_names import check_type
from kue.cli.output.listing import progress_bar, show_json
from kue.cli.output.terminal import Command, print_message
from kue.cli.output.text import jobs
from kue.cli.params import STATE, TYPE
from kue.model.job import State

if TYPE_CHECKING:
    from kue.client.queue import Kue


@click.command(cls=Command)
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
@changes
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
