"""The command line: the group ``kue``, its commands and exit codes."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

import click

from kue.cli.context import URL_KEY, url_option
from kue.cli.output.console import (
    DONE,
    EXIT_CODES,
    INTERRUPTED,
    MISUSED,
    print_error,
    print_message,
)
from kue.model.errors import KueError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

#: Each is in the module of the same name.
COMMANDS = (
    *("alert", "batch", "bench", "bus", "circuit", "completion", "connections"),
    *("dashboard", "demo", "doctor", "failed", "flow", "job", "key", "limit", "queue"),
    *("run", "schedule", "tag", "token", "top", "up"),
    *("user", "worker", "workers"),
)


class CommandGroup(click.Group):
    """Imports a command on demand: a process runs only one of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"{__name__}.commands.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group(
    cls=CommandGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
@click.version_option(package_name="kue", message="kue %(version)s")
@url_option
@click.pass_context
def group(context: click.Context) -> None:
    """
    A priority job queue on SQLite and Redis.

    See it work, without installing or starting anything else:

    \b
      kue demo

    Add a job and look at it:

    \b
      kue job add email '{"to": "ann"}'
      kue job show 1
      kue queue list

    Commands find the queue by its URL: --url, else $KUE_URL, else $REDIS_URL, else the
    file kue.db in this folder.

    \b
      sqlite:///kue.db             a file in this folder
      redis://localhost:6379/0     a Redis server
    """
    _check_url_is_used(context)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _check_url_is_used(context: click.Context) -> None:
    """Reject a --url before a command that does not use it."""
    name = context.invoked_subcommand
    found = group.get_command(context, name or "")
    if found is None or context.meta.get(URL_KEY) is None:
        return
    if not any(param.name == "url_option" for param in found.params):
        raise click.UsageError(
            f"kue {name} takes no --url before its name; kue {name} --help shows where "
            "it finds the queue"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = group.main(arguments, prog_name="kue", standalone_mode=False)
    except click.ClickException as exc:
        context = exc.ctx if isinstance(exc, click.UsageError) else None
        command = context.command_path if context is not None else "kue"
        print_message(f"{exc.format_message()} ({command} --help shows how)")
        return MISUSED
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except KueError as exc:
        return print_error(exc)
    return code if isinstance(code, int) else DONE
