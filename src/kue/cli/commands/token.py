"""``kue token``: API tokens for programs that use the REST API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from kue.cli.audit import login
from kue.cli.context import adds, as_usage_error, changes, json_option, noun, reads
from kue.cli.output.console import print_message
from kue.cli.output.listing import Column, Listing, show_one
from kue.cli.output.text import iso
from kue.cli.params import TIME, moment_of
from kue.http.auth.roles import Scope
from kue.http.auth.tokens import ApiTokens

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from kue.client.queue import Kue
    from kue.http.auth.tokens import ApiToken
    from kue.model.payload import JSON

COLUMNS: tuple[Column[ApiToken], ...] = (
    Column("id", lambda one: one.id),
    Column("name", lambda one: one.name, wraps=True),
    Column("scopes", lambda one: ", ".join(one.scopes), wraps=True),
    Column("by", lambda one: one.by, wraps=True, rank=3),
    Column("made", lambda one: iso(one.created_at), rank=2),
    Column("until", lambda one: one.until and iso(one.until)),
    Column("used", lambda one: one.used_at and iso(one.used_at), rank=1),
)
SCOPES = click.Choice([scope.value for scope in Scope])


@adds
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=SCOPES,
    multiple=True,
    required=True,
    help="What it may do: read, enqueue, manage or admin.  May be repeated.",
)
@click.option("--expires", type=TIME, help="When it expires: 90d, or a time.")
@json_option(help="Write one JSON object: the fields of kue token list, and secret.")
async def add(
    q: Kue,
    name: str,
    scopes: tuple[str, ...],
    expires: datetime | timedelta | None,
    as_json: bool,
) -> None:
    """
    Create a token and print it, this once.

    NAME is its purpose.  Columns in a pipe: id, name, the token.

    \b
      kue token add shop --scope enqueue --expires 90d
      kue token add grafana --scope read
    """
    until = await moment_of(q, expires, ahead=True)
    with as_usage_error():
        made, secret = await ApiTokens(q.store).add(
            name, map(Scope, scopes), by=login(), until=until
        )
    item = {**_item(made), "secret": secret}
    show_one(item, made.id, made.name, secret, as_json=as_json)
    print_message("this is the only time that the token is shown")


@reads
@json_option(
    help="Write one JSON object per line: id, name, scopes, by, created_at, until, "
    "used_at."
)
async def list_(q: Kue, as_json: bool) -> None:
    """
    List tokens, without their secrets.

    Columns in a pipe: id, name, scopes, by, made, until, used.

    \b
      kue token list
    """
    tokens = await ApiTokens(q.store).all()
    Listing(COLUMNS, _item, as_json=as_json).show(tokens)
    if not tokens:
        print_message("there are no tokens; kue token add creates one")


@changes
@click.argument("id")
@json_option(help="Write one JSON object: id, name, revoked.")
async def revoke(q: Kue, id: str, as_json: bool) -> None:
    """
    Revoke a token, with immediate effect.  ID is what kue token list shows.

    \b
      kue token revoke 3f9c01d2a4b5
    """
    revoked = await ApiTokens(q.store).remove(id)
    item = {"id": revoked.id, "name": revoked.name, "revoked": True}
    show_one(item, revoked.id, revoked.name, "revoked", as_json=as_json)


def _item(one: ApiToken) -> dict[str, JSON]:
    shown = msgspec.structs.asdict(one)
    del shown["secret"]
    return shown


@noun(add, list_, revoke)
def token() -> None:
    """
    Manage API tokens, with which programs use the REST API.

    A program sends its token as "Authorization: Bearer kue_…".

    \b
      kue token add shop --scope enqueue --expires 90d
      kue token list
      kue token revoke 3f9c01d2a4b5
    """
