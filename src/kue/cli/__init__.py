"""The command line: thin doors to a queue."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

import kue
from kue.cli.bench import bench
from kue.cli.bus import bus
from kue.cli.completion import completion
from kue.cli.dashboard import dashboard
from kue.cli.demo import demo
from kue.cli.doctor import doctor
from kue.cli.failed import failed
from kue.cli.job import job
from kue.cli.queue import queue
from kue.cli.terminal import (
    DONE,
    EXIT_CODES,
    INTERRUPTED,
    MISUSED,
    REFUSED,
    UNAVAILABLE,
    say,
)
from kue.cli.token import token
from kue.cli.up import up
from kue.cli.user import user
from kue.cli.worker import worker
from kue.cli.workers import workers
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

    Add a job and see what becomes of it:

    \b
      kue job add email '{"to": "ann"}'
      kue job show 1
      kue queue list

    Commands find the queue by its URL: --url, else $KUE_URL, else $REDIS_URL, else the
    file kue.db in this folder.

    \b
      sqlite:///kue.db             a file beside you
      redis://localhost:6379/0     a Redis server
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


COMMANDS = (
    *(demo, up, worker, dashboard, job, queue, workers, failed, bus, user, token),
    *(doctor, bench, completion),
)
for command in COMMANDS:
    group.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    sys.exit(_run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = group.main(arguments, prog_name="kue", standalone_mode=False)
    except click.ClickException as exc:
        say(f"{exc.format_message()} ({_command_of(exc)} --help shows how)")
        return MISUSED
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except KueError as exc:
        say(str(exc))
        return _code_of(exc)
    return code if isinstance(code, int) else DONE


def _command_of(exc: click.ClickException) -> str:
    context = exc.ctx if isinstance(exc, click.UsageError) else None
    return context.command_path if context is not None else "kue"


def _code_of(exc: KueError) -> int:
    if isinstance(exc, StoreUnavailable):
        return UNAVAILABLE
    return MISUSED if isinstance(exc, ConfigError) else REFUSED
