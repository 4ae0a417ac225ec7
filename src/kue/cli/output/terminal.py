"""What all commands share: exit codes, messages, the event loop."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kue.cli.output.text import visible_lines

if TYPE_CHECKING:
    from rich.console import Console

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


class Command(click.Command):
    """A command whose help ends with the exit codes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("epilog", EXIT_CODES)
        super().__init__(*args, **kwargs)


class NounGroup(click.Group):
    """A noun with verbs."""

    command_class = Command

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("epilog", EXIT_CODES)
        kwargs.setdefault("invoke_without_command", True)
        super().__init__(*args, **kwargs)


def help_if_alone(context: click.Context) -> None:
    """Show how a noun is used when it was given no verb."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def say(message: str) -> None:
    """Tell the person at the terminal something that is not output."""
    # What goes on in a second line cannot be taken for another message.
    click.echo("\n     ".join(visible_lines(f"kue: {message}")), err=True)


def program() -> str:
    """Return how this program was started, for advice that can be typed as it is."""
    started = Path(sys.argv[0]).absolute()
    if started.stem != "kue" or shutil.which("kue") == str(started):
        return "kue"
    near = Path.cwd()
    return str(started.relative_to(near) if started.is_relative_to(near) else started)


def output() -> Console:
    """Return the console for what was asked for; lines are never broken in a pipe."""
    # It takes long to import, and what only serves or works shows no table.
    from rich.console import Console

    return Console(soft_wrap=True)


def notices() -> Console:
    """Return the console for what is shown only while it happens."""
    from rich.console import Console

    return Console(stderr=True)
