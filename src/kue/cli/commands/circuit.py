"""``kue circuit``: list the circuits of circuit breakers, and open or close them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
import msgspec

from kue.cli.audit import login
from kue.cli.context import as_usage_error, changes, json_option, noun, reads
from kue.cli.output.console import DONE, REFUSED, print_message
from kue.cli.output.listing import Cell, Column, Listing, ago, count, show_one
from kue.cli.output.text import iso, since
from kue.cli.params import CIRCUIT, DURATION
from kue.cli.unknown_names import near
from kue.model.circuit import open_length

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from kue.client.queue import Kue
    from kue.model.circuit import Circuit
    from kue.model.payload import JSON


def _until(circuit: Circuit, now: int) -> Cell | None:
    until = circuit.until
    return None if until is None else Cell(since(until, now), iso(until))


def _failed(circuit: Circuit) -> Callable[[int], Cell] | None:
    return None if circuit.failed_at is None else ago(circuit.failed_at)


COLUMNS: tuple[Column[Circuit], ...] = (
    Column("name", lambda circuit: circuit.name, wraps=True),
    Column("state", lambda circuit: circuit.state),
    Column("until", lambda circuit: partial(_until, circuit)),
    Column("failures", lambda circuit: count(circuit.failures), True, rank=2),
    Column("cause", lambda circuit: circuit.cause, is_long=True, wraps=True, rank=4),
    Column("probe", lambda circuit: circuit.probe, is_number=True, rank=3),
    Column("failed", _failed, rank=1),
    Column("last error", lambda one: one.last_error, is_long=True, wraps=True, rank=5),
)


def _item(circuit: Circuit) -> JSON:
    return msgspec.structs.asdict(circuit)


@reads
@json_option(help="Write one JSON object per line; times are Unix ms.")
async def list_(q: Kue, as_json: bool) -> None:
    """
    List circuits that opened, or had a failure, in the last day.

    All others are closed.  Columns in a pipe: name, state, until when it is open,
    failures that count, why it is open, the job that probes, the time of the last
    failure, the last failure.

    \b
      kue circuit list
      kue circuit list --json | jq 'select(.state != "closed") | .name'
    """
    found = await q.circuits()
    Listing(COLUMNS, _item, as_json=as_json).show(found, now=await q.now())
    if not found:
        print_message("no circuit has opened, or had a failure, in the last day")


@changes
@click.argument("name", type=CIRCUIT)
@click.option(
    "--for",
    "length",
    type=DURATION,
    default="5m",
    show_default=True,
    help="How long its jobs wait: 30m.",
)
@click.option("--reason", default="", help="Why; shown with the circuit.")
@click.option("--by", help="Who opened it; else your login name.")
@json_option(help="Write one JSON object: the fields of kue circuit list.")
async def open_(
    q: Kue, name: str, length: timedelta, reason: str, by: str | None, as_json: bool
) -> None:
    """
    Open a circuit: its jobs wait, and spend no attempt.

    Running jobs continue.  When the time is over, one job runs as a probe: if it
    succeeds, the circuit closes.

    \b
      kue circuit open stripe --for 30m --reason "Stripe moves"
    """
    with as_usage_error():
        open_length(length, "--for")
    known = [circuit.name for circuit in await q.circuits()]
    who = login() if by is None else by
    opened = await q.open_circuit(name, for_=length, reason=reason, by=who)
    until = f"until {iso(opened.until or 0)}"
    show_one(_item(opened), name, "open", until, as_json=as_json)
    if name not in known:
        print_message(f"note: {_unknown(name, known)}")


@changes
@click.argument("name", type=CIRCUIT)
@json_option(help="Write one JSON object: name, closed.")
async def close(q: Kue, name: str, as_json: bool) -> int:
    """
    Close a circuit: its jobs run, and failures are counted from zero.

    Jobs that were released run when they are due; kue job move --to waiting brings
    them sooner.  Exits with 1 when it was not open.

    \b
      kue circuit close stripe
    """
    known = [circuit.name for circuit in await q.circuits()]
    was_open = await q.close_circuit(name, by=login())
    if was_open or as_json:
        item = {"name": name, "closed": was_open}
        show_one(item, name, "closed", as_json=as_json)
    if not was_open:
        is_known = name in known
        print_message(f"{name} was not open" if is_known else _unknown(name, known))
    return DONE if was_open else REFUSED


def _unknown(name: str, known: list[str]) -> str:
    nobody = f"no circuit {name!r} has opened or failed in the last day"
    return nobody + (near(name, known, what="circuits") if known else "")


@noun(list_, open_, close)
def circuit() -> None:
    """
    List, open or close the circuits of circuit breakers.

    \b
      kue circuit list
      kue circuit open stripe --for 30m --reason "Stripe moves"
      kue circuit close stripe
    """
