"""``kue connections``: the named connections, and which of them answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kue.aio.event_loop import run
from kue.cli.context import json_option
from kue.cli.output.console import DONE, EXIT_CODES, REFUSED
from kue.cli.output.listing import Column, Listing
from kue.client.connection_check import ConnectionState, check_connections
from kue.model.connections import connections as known

if TYPE_CHECKING:
    from kue.model.payload import JSON


def _state(one: ConnectionState) -> str:
    silent = [member.name for member in one.members if member.problem]
    if one.problem or not silent:
        return one.problem or "answers"
    verb = "does" if len(silent) == 1 else "do"
    return f"answers; {', '.join(silent)} {verb} not"


COLUMNS: tuple[Column[ConnectionState], ...] = (
    Column("name", lambda one: one.name or ""),
    Column("url", lambda one: one.url, wraps=True),
    Column("prefix", lambda one: one.prefix, rank=1),
    Column("state", _state, is_long=True),
)


@click.command(epilog=EXIT_CODES)
@json_option(
    help="Write one JSON object per line: name, url, prefix, answers, problem, members."
)
def connections(as_json: bool) -> int:
    """
    List the connections of $KUE_CONNECTIONS, and whether they answer.

    The first is the default: $KUE_URL, else $REDIS_URL, else kue.db in this folder.
    Passwords are masked.  Exits with 1 if one does not answer; a fail-over answers if
    one of its members does.  Connections that a program defines in code are not known
    here.

    \b
      KUE_CONNECTIONS='mail=redis://mail/0 bulk=redis://bulk/0' kue connections
      kue queue list --connection mail
    """
    found = run(check_connections(known.names()))
    Listing(COLUMNS, _json, as_json=as_json).show(found)
    return REFUSED if any(one.problem for one in found) else DONE


def _json(one: ConnectionState) -> JSON:
    return {
        "name": one.name,
        "url": one.url,
        "prefix": one.prefix,
        "answers": not one.problem,
        "problem": one.problem or None,
        "members": [
            {
                "name": member.name,
                "answers": not member.problem,
                "problem": member.problem or None,
            }
            for member in one.members
        ],
    }
