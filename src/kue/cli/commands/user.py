"""``kue user``: people who may log in to the dashboard."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from kue.cli.confirm import confirm, yes_option
from kue.cli.context import adds, asks, changes, json_option, told_as_misuse, url_option
from kue.cli.output.listing import Column, Listing, Row, show_json, show_line
from kue.cli.output.terminal import Command, NounGroup, help_if_alone, say
from kue.cli.output.text import iso
from kue.cli.stdin import read_all
from kue.http.auth.account_records import NameTaken
from kue.http.auth.passwords import check_password
from kue.http.auth.roles import Role
from kue.http.auth.users import UserAccounts

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.http.auth.users import UserAccount
    from kue.model.payload import JSON

__all__ = ["user"]

COLUMNS = (Column("name"), Column("role"), Column("since"))
ROLES = click.Choice([role.label for role in Role])

one_json = json_option(help="Write one JSON object: name, role, created_at.")


@click.group(cls=NounGroup)
@url_option
@click.pass_context
def user(context: click.Context) -> None:
    """
    Say who may log in to the dashboard.

    A viewer looks; an operator also adds, retries, cancels and pauses; an admin also
    removes for good and says who may do what.

    \b
      kue user add ann --role admin
      kue user list
      kue user password ann
    """
    help_if_alone(context)


@click.command(cls=Command)
@click.argument("name")
@click.option("--role", type=ROLES, default="viewer", help="What they may do; viewer.")
@one_json
@adds
async def add(q: Kue, name: str, role: str, as_json: bool) -> None:
    """
    Add a user.

    The password is asked for, or read from standard input where nobody can be asked.

    \b
      kue user add ann --role admin
      kue user add bob < password.txt
    """
    users = UserAccounts(q.store)
    if await users.find(name) is not None:
        raise NameTaken(f"there is a user {name!r} already")
    with told_as_misuse():
        account = await users.add(name, _password(), Role.of(role))
    _show(account, "added", as_json=as_json)


@click.command("list", cls=Command)
@json_option(help="Write one JSON object a line: name, role, created_at.")
@asks
async def list_(q: Kue, as_json: bool) -> None:
    """
    List users.

    Columns in a pipe: name, role, since.

    \b
      kue user list
    """
    accounts = await UserAccounts(q.store).all()
    Listing(*COLUMNS, as_json=as_json).show(_row(account) for account in accounts)
    if not accounts:
        say("nobody may log in yet; kue user add adds someone")


@click.command(cls=Command)
@click.argument("name")
@click.argument("role", type=ROLES)
@one_json
@changes
async def role(q: Kue, name: str, role: str, as_json: bool) -> None:
    """
    Give a user another ROLE: viewer, operator or admin.

    \b
      kue user role ann operator
    """
    account = await UserAccounts(q.store).set_role(name, Role.of(role))
    _show(account, "changed", as_json=as_json)


@click.command(cls=Command)
@click.argument("name")
@one_json
@changes
async def password(q: Kue, name: str, as_json: bool) -> None:
    """
    Give a user another password, and end all their sessions.

    It is asked for, or read from standard input where nobody can be asked.

    \b
      kue user password ann
    """
    users = UserAccounts(q.store)
    await users.get(name)
    with told_as_misuse():
        account = await users.set_password(name, _password())
    _show(account, "changed", as_json=as_json)


@click.command(cls=Command)
@click.argument("name")
@yes_option
@json_option(help="Write one JSON object: name, removed.")
@changes
async def remove(q: Kue, name: str, yes: bool, as_json: bool) -> None:
    """
    Remove a user, and end all their sessions.

    \b
      kue user remove ann
    """
    users = UserAccounts(q.store)
    account = await users.get(name)
    confirm(f"remove the user {account.name!r}?", yes=yes)
    await users.remove(account.name)
    if as_json:
        show_json({"name": account.name, "removed": True})
    else:
        show_line(account.name, "removed")


def _password() -> str:
    """Return a password from a person, twice, or the first line of standard input."""
    if sys.stdin.isatty():
        given: Any = click.prompt(
            "Password", hide_input=True, confirmation_prompt=True, err=True
        )
        return str(given)
    try:
        text = read_all().partition(b"\n")[0].decode().removesuffix("\r")
    except UnicodeDecodeError:
        raise ValueError("the password is not UTF-8") from None
    check_password(text)
    return text


def _row(account: UserAccount) -> Row:
    cells = [account.name, account.role.label, iso(account.created_at)]
    return Row(shown=cells, plain=cells, item=partial(_item, account))


def _item(account: UserAccount) -> JSON:
    return {
        "name": account.name,
        "role": account.role.label,
        "created_at": account.created_at,
    }


def _show(account: UserAccount, what: str, *, as_json: bool) -> None:
    if as_json:
        show_json(_item(account))
    else:
        show_line(account.name, account.role.label, what)


for command in (add, list_, role, password, remove):
    user.add_command(command)
