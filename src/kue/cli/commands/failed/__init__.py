"""``kue failed``: jobs that failed for good."""

from __future__ import annotations

import click

from kue.cli.commands.failed.list import list_
from kue.cli.commands.failed.remove import flush, forget, prune
from kue.cli.commands.failed.retry import retry
from kue.cli.context import url_option
from kue.cli.output.terminal import NounGroup, help_if_alone

__all__ = ["failed"]


@click.group(cls=NounGroup)
@url_option
@click.pass_context
def failed(context: click.Context) -> None:
    """
    Look at failed jobs, retry or remove them.

    Failed are jobs that used up their attempts, or were refused another one.

    \b
      kue failed list --by-error
      kue failed retry --all --error timeout
      kue failed prune --older-than 7d
    """
    help_if_alone(context)


for command in (list_, retry, forget, flush, prune):
    failed.add_command(command)
