"""What all commands share: exit codes, messages, the event loop."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

#: What commands exit with; see EXIT_CODES.
DONE, REFUSED, MISUSED, UNAVAILABLE, INTERRUPTED = 0, 1, 2, 3, 130

#: The end of every command's help.  \b keeps click from joining the lines.
EXIT_CODES = """\b
Exit codes:
  0  done
  1  refused, or something is wrong
  2  used wrongly
  3  the store cannot be reached
"""


def say(message: str) -> None:
    """Tell the person at the terminal something that is not output."""
    click.echo(f"kue: {message}", err=True)


def output() -> Console:
    """Return the console for what was asked for; lines are never broken in a pipe."""
    return Console(soft_wrap=True)


def notices() -> Console:
    """Return the console for what is shown only while it happens."""
    return Console(stderr=True)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run *work* on the fastest event loop there is."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)
