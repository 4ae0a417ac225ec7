"""Exit codes, messages, confirmation and consoles, shared by all commands."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kue.cli.output.text import visible, visible_lines
from kue.model.errors import ConfigError, StoreUnavailable

if TYPE_CHECKING:
    from rich.console import Console

    from kue.model.errors import KueError

#: Exit codes; see EXIT_CODES.
DONE, REFUSED, MISUSED, UNAVAILABLE, INTERRUPTED = 0, 1, 2, 3, 130

#: Ends the help of every command.  \b keeps click from joining the lines.
EXIT_CODES = """\b
Exit codes:
  0  done
  1  refused, or something is wrong
  2  used wrongly
  3  the store cannot be reached
"""


def print_error(exc: KueError) -> int:
    """Print what a command failed with, and return its exit code."""
    # The traceback of code that could not be loaded.
    click.echo(getattr(exc, "detail", ""), err=True, nl=False)
    print_message(str(exc))
    if isinstance(exc, StoreUnavailable):
        return UNAVAILABLE
    return MISUSED if isinstance(exc, ConfigError) else REFUSED


def print_message(message: str) -> None:
    """Write a message to standard error, prefixed ``kue:``."""
    # Indented: a second line cannot be mistaken for another message.
    click.echo("\n     ".join(visible_lines(f"kue: {message}")), err=True)


def program() -> str:
    """Return how this program was started, for commands that users can copy."""
    started = Path(sys.argv[0]).absolute()
    if started.stem != "kue" or shutil.which("kue") == str(started):
        return "kue"
    near = Path.cwd()
    return str(started.relative_to(near) if started.is_relative_to(near) else started)


def output() -> Console:
    """Return the console for output; it does not wrap lines in a pipe."""
    # Slow to import, and servers and workers show no table.
    from rich.console import Console

    return Console(soft_wrap=True)


yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def confirm(question: str, *, yes: bool) -> None:
    """Ask on a terminal; elsewhere nobody could answer, so go ahead."""
    if not yes and sys.stdin.isatty():
        click.confirm(f"kue: {visible(question)}", abort=True, err=True)
