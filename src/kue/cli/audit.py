"""Audit log entries for changes made on the command line."""

from __future__ import annotations

import os
import pwd
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kue.cli.output.console import DONE, print_message
from kue.model.credential_masking import mask_credentials
from kue.model.errors import StoreError
from kue.store.values import AuditEntry

if TYPE_CHECKING:
    from kue.store.contract import Store

MAX_TARGET, MAX_DETAIL = 200, 500
#: Parameters that are not recorded: payloads, and output options.
LEFT_OUT = frozenset({"data", "as_json", "yes"})
_UNCHANGED = "kue.unchanged"


def unchanged() -> None:
    """Record that the current command has not changed anything."""
    click.get_current_context().meta[_UNCHANGED] = True


async def note_command(store: Store, code: int | None) -> None:
    """
    Write an audit entry for the current command, which ended with *code*.

    An error of the store is reported and does not fail the command.
    """
    context = click.get_current_context()
    if context.meta.get(_UNCHANGED):
        return
    is_done = code is None or code == DONE
    entry = AuditEntry(
        who=f"cli:{login()}",
        what=_command(context),
        target=_target(context)[:MAX_TARGET],
        # Part of the command may have been done.
        status=HTTPStatus.OK if is_done else HTTPStatus.CONFLICT,
        address=socket.gethostname(),
        detail=_detail(context)[:MAX_DETAIL],
    )
    try:
        await store.note(entry)
    except StoreError as exc:
        print_message(f"{entry.what} is not in the audit log: {exc}")


def login() -> str:
    """Return the login name, not from the environment, which the user controls."""
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        # A user id without a name, as in some containers.
        return str(uid)


def _command(context: click.Context) -> str:
    """Return the words of the command without ``kue``: ``queue.pause``."""
    names = []
    one: click.Context | None = context
    while one is not None and one.parent is not None:
        names.append(one.info_name or "")
        one = one.parent
    return ".".join(reversed(names))


def _target(context: click.Context) -> str:
    """Return the arguments of the command, as text."""
    values = _given(context, click.Argument).values()
    texts = [
        str(one)
        for value in values
        for one in (value if isinstance(value, tuple) else (value,))
    ]
    return mask_credentials(" ".join(texts))


def _detail(context: click.Context) -> str:
    """Return the options that were given, as JSON."""
    options = {
        name: value if isinstance(value, bool | int | tuple) else str(value)
        for name, value in _given(context, click.Option).items()
    }
    text = msgspec.json.encode(options, enc_hook=str).decode() if options else ""
    return mask_credentials(text)


def _given(context: click.Context, kind: type[click.Parameter]) -> dict[str, Any]:
    """Return the parameters of *kind* that were given, by name."""
    found = {
        param.name: context.params.get(param.name or "")
        for param in context.command.params
        if isinstance(param, kind)
    }
    return {
        name: value
        for name, value in found.items()
        if name is not None
        and name not in LEFT_OUT
        and value not in (None, False, "", ())
    }
