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
#: Parameters that are not recorded: payloads, secrets, and output options.
LEFT_OUT = frozenset({"data", "webhook", "as_json", "yes"})
_UNCHANGED = "kue.unchanged"


def unchanged() -> None:
    """Record that the current command has not changed anything."""
    click.get_current_context().meta[_UNCHANGED] = True


async def note_command(store: Store, code: int | None) -> None:
    """Write an audit entry for the current command, which ended with *code*."""
    context = click.get_current_context()
    if context.meta.get(_UNCHANGED):
        return
    _, *names = context.command_path.split()
    entry = entry_of(
        ".".join(names),
        _target(context),
        is_done=code is None or code == DONE,
        detail=_detail(context),
    )
    try:
        await store.note(entry)
    except StoreError as exc:
        print_message(f"{entry.what} is not in the audit log: {exc}")


def entry_of(what: str, target: str, *, is_done: bool, detail: str = "") -> AuditEntry:
    """Return the entry of a change by the current user of this host."""
    return AuditEntry(
        who=f"cli:{login()}",
        what=what,
        target=target[:MAX_TARGET],
        # Part of a command may have been done.
        status=HTTPStatus.OK if is_done else HTTPStatus.CONFLICT,
        address=socket.gethostname(),
        detail=detail[:MAX_DETAIL],
    )


def login() -> str:
    """Return the login name, not from the environment, which the user controls."""
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        # A user id without a name, as in some containers.
        return str(uid)


def _target(context: click.Context) -> str:
    """Return the arguments of the command, as text."""
    texts: list[str] = []
    for value in _given(context, click.Argument).values():
        texts += map(str, value if isinstance(value, tuple) else (value,))
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
    names = [p.name for p in context.command.params if p.name and isinstance(p, kind)]
    found = {name: context.params.get(name) for name in names if name not in LEFT_OUT}
    return {
        name: value
        for name, value in found.items()
        if value not in (None, False, "", ())
    }
