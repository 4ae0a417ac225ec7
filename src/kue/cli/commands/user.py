"""``kue user``: user accounts of the dashboard, with passwords and roles."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from kue.cli.context import adds, as_usage_error, changes, json_option, noun, reads
from kue.cli.input import read_all
from kue.cli.output.console import confirm, print_message, yes_option
from kue.cli.output.listing import Column, Listing, show_one
from kue.cli.output.text import iso
from kue.http.auth.account_records import NameTaken
from kue.http.auth.passwords import check_password
from kue.http.auth.roles import Role
from kue.http.auth.users import UserAccounts

if TYPE_CHECKING:
    from kue.client.queue import Kue
    from kue.http.auth.users import UserAccount
    from kue.model.payload import JSON

COLUMNS: tuple[Column[UserAccount], ...] = (
    Column("name", lambda account: account.name),
    Column("role", lambda account: account.role.label),
    Column("since", lambda account: iso(account.created_at)),
)
ROLES = click.Choice([role.label for role in Role])

one_json = json_option(help="Write one JSON object: name, role, created_at.")


@adds
@click.argument("name")
@click.option("--role", type=ROLES, default="viewer", help="The role; else viewer.")
@one_json
async def add(q: Kue, name: str, role: str, as_json: bool) -> None:
    """
    Add a user.

    Prompts for the password; without a terminal, reads it from standard input.

    \b
      kue user add ann --role admin
      kue user add bob < password.txt
    """
    users = UserAccounts(q.store)
    if await users.find(name) is not None:
        raise NameTaken(f"there is a user {name!r} already")
    with as_usage_error():
        account = await users.add(name, _password(), Role.of(role))
    _show(account, "added", as_json=as_json)


@reads
@json_option(help="Write one JSON object per line: name, role, created_at.")
async def list_(q: Kue, as_json: bool) -> None:
    """
    List users.

    Columns in a pipe: name, role, since.

    \b
      kue user list
    """
    accounts = await UserAccounts(q.store).all()
    Listing(COLUMNS, _item, as_json=as_json).show(accounts)
    if not accounts:
        print_message("there are no users; kue user add adds one")


@changes
@click.argument("name")
@click.argument("role", type=ROLES)
@one_json
async def role(q: Kue, name: str, role: str, as_json: bool) -> None:
    """
    Change the role of a user to ROLE: viewer, operator or admin.

    \b
      kue user role ann operator
    """
    account = await UserAccounts(q.store).set_role(name, Role.of(role))
    _show(account, "changed", as_json=as_json)


@changes
@click.argument("name")
@one_json
async def password(q: Kue, name: str, as_json: bool) -> None:
    """
    Change the password of a user, and end all their sessions.

    Prompts for it; without a terminal, reads it from standard input.

    \b
      kue user password ann
    """
    users = UserAccounts(q.store)
    await users.get(name)
    with as_usage_error():
        account = await users.set_password(name, _password())
    _show(account, "changed", as_json=as_json)


@changes
@click.argument("name")
@yes_option
@json_option(help="Write one JSON object: name, removed.")
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
    item = {"name": account.name, "removed": True}
    show_one(item, account.name, "removed", as_json=as_json)


def _password() -> str:
    """Prompt for a password, twice, or read the first line of standard input."""
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


def _item(account: UserAccount) -> JSON:
    return {
        "name": account.name,
        "role": account.role.label,
        "created_at": account.created_at,
    }


def _show(account: UserAccount, what: str, *, as_json: bool) -> None:
    cells = (account.name, account.role.label, what)
    show_one(_item(account), *cells, as_json=as_json)


@noun(add, list_, role, password, remove)
def user() -> None:
    """
    Manage the users who may log in to the dashboard.

    A viewer can look; an operator can also add, retry, cancel and pause; an admin can
    also remove permanently and manage users and tokens.

    \b
      kue user add ann --role admin
      kue user list
      kue user password ann
    """
