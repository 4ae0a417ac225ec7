"""The command line: thin doors to a queue."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

import kue
from kue.cli.demo import demo
from kue.cli.doctor import doctor
from kue.cli.terminal import (
    DONE,
    EXIT_CODES,
    INTERRUPTED,
    MISUSED,
    REFUSED,
    UNAVAILABLE,
    say,
)
from kue.errors import ConfigError, KueError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
@click.version_option(kue.__version__, message="kue %(version)s")
@click.pass_context
def group(context: click.Context) -> None:
    """
    A priority job queue on SQLite and Redis.

    See it work, without installing or starting anything else:

    \b
      kue demo

    Commands find the queue by its URL: an argument, else $KUE_URL, else $REDIS_URL,
    else the file kue.db in this folder.

    \b
      sqlite:///kue.db             a file beside you
      redis://localhost:6379/0     a Redis server
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


group.add_command(demo)
group.add_command(doctor)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = group.main(arguments, prog_name="kue", standalone_mode=False)
    except click.ClickException as exc:
        say(f"{exc.format_message()} (kue --help shows how)")
        return MISUSED
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except KueError as exc:
        say(str(exc))
        return _code_of(exc)
    return code if isinstance(code, int) else DONE


def _code_of(exc: KueError) -> int:
    if isinstance(exc, StoreUnavailable):
        return UNAVAILABLE
    return MISUSED if isinstance(exc, ConfigError) else REFUSED
