"""The audit log of changes that are made on the command line."""

from __future__ import annotations

import os
import pwd
import socket
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import click
import msgspec

from kue.cli.output.terminal import DONE, say
from kue.model.credentials import mask_credentials
from kue.model.errors import StoreError
from kue.store.values import AuditEntry

if TYPE_CHECKING:
    from kue.store.contract import Store

MAX_TARGET, MAX_DETAIL = 200, 500
#: Parameters that are not written down: payloads, and how an answer is shown.
LEFT_OUT = frozenset({"data", "as_json", "yes"})
_UNCHANGED = "kue.unchanged"


def unchanged() -> None:
    """Tell that the command that runs only looked, this time."""
    click.get_current_context().meta[_UNCHANGED] = True


async def note_command(store: Store, code: int | None) -> None:
    """
    Write down what the command that ran changed, and that it ended with *code*.

    What is wrong with the store is said, and takes nothing from what was done.
    """
    context = click.get_current_context()
    if context.meta.get(_UNCHANGED):
        return
    is_done = code is None or code == DONE
    act = AuditEntry(
        who=f"cli:{login()}",
        what=_command(context),
        target=_target(context)[:MAX_TARGET],
        # Some of many may have been done.
        status=HTTPStatus.OK if is_done else HTTPStatus.CONFLICT,
        address=socket.gethostname(),
        detail=_detail(context)[:MAX_DETAIL],
    )
    try:
        await store.note(act)
    except StoreError as exc:
        say(f"{act.what} is not in the audit log: {exc}")


def login() -> str:
    """Return who gives the command: not what the environment says, which is theirs."""
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        # A user id without a name, as in some containers.
        return str(uid)


def _command(context: click.Context) -> str:
    """Return the words of the command but the first: ``queue.pause``."""
    names = []
    one: click.Context | None = context
    while one is not None and one.parent is not None:
        names.append(one.info_name or "")
        one = one.parent
    return ".".join(reversed(names))


def _target(context: click.Context) -> str:
    """Return the arguments: what it was done to."""
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
