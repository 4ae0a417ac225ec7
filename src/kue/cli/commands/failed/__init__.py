"""``kue failed``: list, retry and remove failed jobs (dead letters)."""

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
    List, retry or remove failed jobs.

    A job is failed when its attempts are used up, or when it must not be retried.

    \b
      kue failed list --by-error
      kue failed retry --all --error timeout
      kue failed prune --older-than 7d
    """
    help_if_alone(context)


for command in (list_, retry, forget, flush, prune):
    failed.add_command(command)
