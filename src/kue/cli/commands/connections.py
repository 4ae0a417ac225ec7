"""``kue connections``: the named connections, and which of them answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

import click

from kue.aio.event_loop import run
from kue.cli.context import json_option, refuse_missing_file
from kue.cli.output.console import DONE, EXIT_CODES, REFUSED
from kue.cli.output.listing import Column, Listing
from kue.model.connections import FAILOVER, members_of
from kue.model.connections import connections as known
from kue.model.credential_masking import mask_credentials
from kue.model.errors import KueError
from kue.store import scheme_of, store_for

if TYPE_CHECKING:
    from kue.model.payload import JSON
    from kue.model.settings import Settings

#: How long each may take to answer.
TIMEOUT_SECONDS = 5.0


class _Connection(NamedTuple):
    name: str
    url: str
    prefix: str
    #: Empty if it answers.
    problem: str

    @property
    def state(self) -> str:
        return self.problem or "answers"


COLUMNS: tuple[Column[_Connection], ...] = (
    Column("name", lambda one: one.name),
    Column("url", lambda one: one.url, wraps=True),
    Column("prefix", lambda one: one.prefix, rank=1),
    Column("state", lambda one: one.state, is_long=True),
)


@click.command(epilog=EXIT_CODES)
@json_option(
    help="Write one JSON object per line: name, url, prefix, answers, problem."
)
def connections(as_json: bool) -> int:
    """
    List the connections of $KUE_CONNECTIONS, and whether they answer.

    The first is the default: $KUE_URL, else $REDIS_URL, else kue.db in this folder.
    Passwords are masked.  Exits with 1 if one does not answer.  Connections that a
    program defines in code are not known here.

    \b
      KUE_CONNECTIONS='mail=redis://mail/0 bulk=redis://bulk/0' kue connections
      kue queue list --connection mail
    """
    found = run(_look_at_all())
    Listing(COLUMNS, _json, as_json=as_json).show(found)
    return REFUSED if any(one.problem for one in found) else DONE


async def _look_at_all() -> list[_Connection]:
    return await asyncio.gather(*map(_look_at, known.names()))


async def _look_at(name: str) -> _Connection:
    try:
        settings = known.settings(name)
    except KueError as exc:
        return _Connection(name, "", "", mask_credentials(str(exc)))
    try:
        await _ask(settings)
        problem = ""
    except (KueError, TimeoutError) as exc:
        problem = mask_credentials(str(exc)) or "it did not answer in time"
    url = mask_credentials(settings.url)
    return _Connection(name, url, settings.prefix, problem)


async def _ask(settings: Settings) -> None:
    if scheme_of(settings.url) == FAILOVER:
        for name in members_of(settings.url):
            known.settings(name)
        return
    refuse_missing_file(settings.url)
    store = store_for(settings)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            await store.open()
    finally:
        await store.close()


def _json(one: _Connection) -> JSON:
    return {
        "name": one.name,
        "url": one.url,
        "prefix": one.prefix,
        "answers": not one.problem,
        "problem": one.problem or None,
    }
